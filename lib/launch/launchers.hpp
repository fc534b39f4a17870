// SPDX-License-Identifier: MIT OR Apache-2.0
// What launchers call a rank and its surroundings, and which of several started this process.
#pragma once

#include <lend/base/result.hpp>

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lend::launch {

/// The names of its variables; null: it has none. Of a size that has none PMIx is asked.
struct Launcher {
  char const *name, *rank, *size;
  /// Those that differ from one of its starts to the next.
  std::array<char const*, 4> trace;
  char const *job = nullptr, *step = nullptr, *local_size = nullptr;
  char const *descriptor = nullptr, *hosts = nullptr;
};

inline constexpr Launcher lend_run{.name = "lend-run",
                                   .rank = "LEND_RANK",
                                   .size = "LEND_SIZE",
                                   .trace = {"LEND_RANK", "LEND_SIZE", "LEND_GROUP", "LEND_DESK"}};
inline constexpr Launcher pmi{.name = "a PMI launcher",
                              .rank = "PMI_RANK",
                              .size = "PMI_SIZE",
                              .trace = {"PMI_RANK", "PMI_SIZE", "PMI_FD"},
                              .descriptor = "PMI_FD"};
inline constexpr Launcher pmix{.name = "a PMIx launcher",
                               .rank = "PMIX_RANK",
                               .size = nullptr,
                               .trace = {"PMIX_NAMESPACE", "PMIX_RANK"},
                               .job = "PMIX_NAMESPACE"};
inline constexpr Launcher open_mpi{
    .name = "Open MPI",
    .rank = "OMPI_COMM_WORLD_RANK",
    .size = "OMPI_COMM_WORLD_SIZE",
    .trace = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"},
    .job = "PMIX_NAMESPACE",
    .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"};
// Launchers within a step may pass on the rank of the process that asked them: it is no trace.
inline constexpr Launcher slurm{.name = "Slurm",
                                .rank = "SLURM_PROCID",
                                .size = "SLURM_STEP_NUM_TASKS",
                                .trace = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
                                .job = "SLURM_JOB_ID",
                                .step = "SLURM_STEP_ID",
                                .local_size = "SLURM_STEP_TASKS_PER_NODE",
                                .hosts = "SLURM_STEP_NODELIST"};
inline constexpr std::array launchers{&lend_run, &pmi, &pmix, &open_mpi, &slurm};

/// How the desk of lend-run begins, which is that of its own ranks only.
inline constexpr std::string_view lend_run_desk = "unix:@lend-run-";

/// The value of a variable, which outlives the call; empty: not set, or to nothing.
using Environment = std::function<std::string_view(char const* variable)>;

/// That of a block of "NAME=VALUE" with a zero byte behind each, as /proc/PID/environ has it.
[[nodiscard]] Environment environment_in(std::string block);

/// What this process and its ancestors were started with, the nearest first; those that this
/// process may not read are left out.
[[nodiscard]] std::vector<Environment> environments_of_ancestors();

/// Whether the ranks of `launcher` can ask its PMIx, which other launchers around it may have, too.
/// Source: Slurm src/plugins/mpi/pmix/pmixp_info.c: the job "slurm.pmix.JOB.STEP".
[[nodiscard]] bool has_pmix(Launcher const& launcher, Environment const& own);

/// "JOB.STEP", or "JOB" where the launcher has no steps; empty: unknown.
[[nodiscard]] std::string job_of(Launcher const& launcher, Environment const& own);

/// The launcher that started the process with the environment `own`; null: none left a rank.
///
/// A process inherits what launchers around its own left. What its own left is missing, or differs,
/// in an ancestor that has what the others left. `ancestors` is called where there are several.
/// Errors:  invalid_argument  no ancestor shows which it was; names them.
[[nodiscard]] Result<Launcher const*> starter_of(
    Environment const& own, std::function<std::vector<Environment>()> const& ancestors);

}  // namespace lend::launch
