// SPDX-License-Identifier: MIT OR Apache-2.0
// Which of several launchers is the innermost. Any thread.
#include <base/printable.hpp>
#include <base/standard_reserved.hpp>
#include <launch/launchers.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

namespace lend::launch {

namespace {

using Launchers = std::vector<Launcher const*>;

constexpr int ancestors_max = 1000;

/// Empty: not readable.
std::string bytes_of_file(std::string const& path) {
  base::StandardReserved const reserved;
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// 0: there is none, or none that this process sees.
/// Source: proc(5), /proc/pid/stat: the fourth field, behind a name that may have any character.
long parent_in(std::string const& stat) {
  auto const name_end = stat.rfind(')');
  if (name_end == std::string::npos || stat.size() < name_end + 4) return 0;
  long parent = 0;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

/// Scripts of sbatch, the shell of salloc and what pam_slurm_adopt takes in are of steps that have
/// no ranks: Slurm's variables say there what a job has asked for, and nothing of this process.
/// Source: Slurm slurm/slurm.h: SLURM_MAX_NORMAL_STEP_ID, and above it SLURM_INTERACTIVE_STEP,
///         SLURM_BATCH_SCRIPT, SLURM_EXTERN_CONT and SLURM_PENDING_STEP.
bool is_step_of_ranks(std::string_view step) noexcept {
  std::uint64_t number = 0;
  auto const [end, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  return !step.empty() && error != std::errc::result_out_of_range && number <= 0xffff'fff0;
}

bool has_left_ranks(Launcher const& launcher, Environment const& own) {
  if (launcher.step != nullptr && !is_step_of_ranks(own(launcher.step))) return false;
  return !own(launcher.rank).empty() || (launcher.size != nullptr && !own(launcher.size).empty());
}

bool has_same_trace(Launcher const& launcher, Environment const& one, Environment const& other) {
  return std::ranges::all_of(launcher.trace, [&](char const* variable) {
    return variable == nullptr || one(variable) == other(variable);
  });
}

/// Those that started the process after all others had started an ancestor of it: one if that can
/// be told.
Launchers newest_of(Launchers const& left, Environment const& own,
                    std::vector<Environment> const& ancestors) {
  for (auto const& ancestor : ancestors) {
    Launchers newer;
    std::ranges::copy_if(left, std::back_inserter(newer),
                         [&](Launcher const* one) { return !has_same_trace(*one, own, ancestor); });
    if (!newer.empty()) return newer;
  }
  return left;
}

/// `srun --mpi=pmi2` leaves both Slurm's and PMI's variables; `srun --mpi=none` passes on what an
/// `srun --mpi=pmi2` around it left. True: both are of this step.
/// Errors:  invalid_argument  PMI is that of another step than this process is of.
/// Source:  Slurm src/plugins/mpi/pmi2/setup.c, pmi_jobid: "JOB.STEP", with more behind it where a
///          program spawned the step; a run of Slurm 22.05.
Result<bool> is_pmi_of_slurm(Environment const& own) {
  auto const theirs = own("PMI_JOBID");
  auto const step = job_of(slurm, own);
  if (theirs.find('.') == std::string_view::npos) return false;
  bool const is_spawned = theirs.find_first_not_of("0123456789.") != std::string_view::npos;
  if (is_spawned || theirs == step) return true;
  return Error{Errc::invalid_argument,
               "PMI_JOBID is \"" + base::shown(theirs) +
                   "\", and this process is of Slurm's step " + base::shown(step) +
                   ": PMI_RANK, PMI_SIZE and PMI_FD are left over from the "
                   "srun around this one; unset the four, or start by srun --mpi=pmi2"};
}

/// Whether LEND_RANK and LEND_SIZE are by hand, and what the others of `tied` say too.
bool is_said_by_hand(Launchers const& tied, Environment const& own) {
  return tied.front() == &lend_run && !own("LEND_DESK").starts_with(lend_run_desk) &&
         std::ranges::all_of(tied, [&](Launcher const* one) {
           return own(one->rank) == own(lend_run.rank) &&
                  (one->size == nullptr || own(one->size) == own(lend_run.size));
         });
}

Error contradiction(Launchers const& tied, Environment const& own) {
  std::string all;
  for (auto const* const one : tied)
    all += std::string{all.empty() ? "" : ", but "} + one->rank + "=" +
           base::shown(own(one->rank)) +
           (one->size == nullptr
                ? std::string{}
                : std::string{" and "} + one->size + "=" + base::shown(own(one->size))) +
           " (" + one->name + ")";
  return {Errc::invalid_argument,
          "launchers contradict each other, and which of them started this process cannot be told "
          "from its ancestors: " +
              all + "; unset the variables of those that did not start it"};
}

}  // namespace

Environment environment_in(std::string block) {
  return [block = std::move(block)](std::string_view variable) {
    for (std::string_view rest{block}; !rest.empty();) {
      auto const one = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      if (one.starts_with(variable) && one.substr(variable.size()).starts_with('='))
        return one.substr(variable.size() + 1);
    }
    return std::string_view{};
  };
}

std::vector<Environment> environments_of_ancestors() {
  std::vector<Environment> found;
  std::string process = "self";
  for (int i = 0; i < ancestors_max; ++i) {
    auto const folder = "/proc/" + process;
    if (auto block = bytes_of_file(folder + "/environ"); !block.empty())
      found.push_back(environment_in(std::move(block)));
    auto const parent = parent_in(bytes_of_file(folder + "/stat"));
    if (parent <= 0) break;
    process = std::to_string(parent);
  }
  return found;
}

bool has_pmix(Launcher const& launcher, Environment const& own) {
  auto const job = own(pmix.job);
  if (&launcher == &slurm) return job == "slurm.pmix." + job_of(slurm, own);
  return (&launcher == &pmix || &launcher == &open_mpi) && !job.empty();
}

std::string job_of(Launcher const& launcher, Environment const& own) {
  std::string name{launcher.job == nullptr ? std::string_view{} : own(launcher.job)};
  if (!name.empty() && launcher.step != nullptr) name += "." + std::string{own(launcher.step)};
  return name;
}

Result<Launcher const*> starter_of(Environment const& own,
                                   std::function<std::vector<Environment>()> const& ancestors) {
  Launchers left;
  std::ranges::copy_if(launchers, std::back_inserter(left),
                       [&](Launcher const* one) { return has_left_ranks(*one, own); });
  if (left.empty()) return static_cast<Launcher const*>(nullptr);
  if (left.size() > 1) left = newest_of(left, own, ancestors());
  if (std::ranges::find(left, &pmi) != left.end() &&
      std::ranges::find(left, &slurm) != left.end()) {
    LEND_TRY(is_one, is_pmi_of_slurm(own));
    if (is_one) std::erase(left, &slurm);
  }
  // Open MPI and Slurm say more of their ranks than their PMIx does.
  if (std::ranges::any_of(left,
                          [&](Launcher const* one) { return one != &pmix && has_pmix(*one, own); }))
    std::erase(left, &pmix);
  if (left.size() == 1 || is_said_by_hand(left, own)) return left.front();
  return contradiction(left, own);
}

}  // namespace lend::launch
