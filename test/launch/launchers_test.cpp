// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: of launchers inside launchers the one counts that started this process, whichever two of
// the guide's table they are; where no ancestor shows it, both are named. Method: environments of a
// process and its ancestors, made up; and those of this process.
#include <launch/launchers.hpp>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

using Left = std::map<std::string, std::string>;

/// What each launcher of the table leaves; the numbers of the last start are those of `start`.
struct Kind {
  launch::Launcher const* launcher;
  Left variables;
};

std::vector<Kind> kinds(std::string const& start) {
  return {
      {&launch::lend_run,
       {{"LEND_RANK", "0"},
        {"LEND_SIZE", "2"},
        {"LEND_GROUP", start},
        {"LEND_DESK", "unix:@lend-run-" + start}}},
      {&launch::lend_run,  // by hand
       {{"LEND_RANK", "0"}, {"LEND_SIZE", "3"}, {"LEND_DESK", "node1:4" + start}}},
      {&launch::pmi, {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", start}}},
      {&launch::open_mpi,
       {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", start}}},
      {&launch::slurm,
       {{"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "2"},
        {"SLURM_JOB_ID", "17"},
        {"SLURM_STEP_ID", start}}}};
}

launch::Environment made_of(Left const& variables) {
  std::string block;
  for (auto const& [name, value] : variables) ((block += name) += '=') += value + '\0';
  return launch::environment_in(block);
}

/// `inner` over `outer`, as a process has it that inherits.
Left both(Left const& outer, Left inner) {
  inner.insert(outer.begin(), outer.end());
  return inner;
}

Result<launch::Launcher const*> starter(Left const& own, std::vector<Left> const& ancestors) {
  return launch::starter_of(made_of(own), [&] {
    std::vector<launch::Environment> found;
    for (auto const& one : ancestors) found.push_back(made_of(one));
    return found;
  });
}

}  // namespace

TEST_CASE("of any two launchers the one inside the other started the process", "[network]") {
  for (auto const& outer : kinds("1"))
    for (auto const& inner : kinds("2")) {
      CAPTURE(outer.launcher->name, inner.launcher->name);
      auto const own = both(outer.variables, inner.variables);
      auto const& between = outer.variables;  // those of the inner launcher itself
      CHECK(must(starter(own, {own, between, {}})) == inner.launcher);
      // A script between launcher and process; launchers whose environment may not be read.
      CHECK(must(starter(own, {own, own, own, between, between, {}})) == inner.launcher);
      CHECK(must(starter(own, {between})) == inner.launcher);
    }
}

TEST_CASE("of three launchers the innermost counts, also where the outermost is of its kind",
          "[network]") {
  for (auto const& outer : kinds("1"))
    for (auto const& middle : kinds("2"))
      for (auto const& inner : kinds("3")) {
        CAPTURE(outer.launcher->name, middle.launcher->name, inner.launcher->name);
        auto const in_middle = both(outer.variables, middle.variables);
        auto const own = both(in_middle, inner.variables);
        CHECK(must(starter(own, {own, in_middle, outer.variables, {}})) == inner.launcher);
      }
}

TEST_CASE("where no ancestor shows which of two launchers started the process, both are named",
          "[network]") {
  for (auto const& outer : kinds("1"))
    for (auto const& inner : kinds("2")) {
      if (outer.launcher == inner.launcher) continue;
      CAPTURE(outer.launcher->name, inner.launcher->name);
      auto const own = both(outer.variables, inner.variables);
      // None can be read; all can, and had both; one had neither, as the daemon of a launcher that
      // passes on what the process around it had.
      for (auto const& ancestors :
           {std::vector<Left>{}, std::vector<Left>{own, own}, std::vector<Left>{own, Left{}}}) {
        auto const error = error_of(starter(own, ancestors));
        CHECK(error == Errc::invalid_argument);
        CHECK_THAT(error.message(), Catch::Contains("contradict each other") &&
                                        Catch::Contains(outer.launcher->name) &&
                                        Catch::Contains(inner.launcher->name) &&
                                        Catch::Contains("unset"));
      }
    }
}

TEST_CASE("a rank by hand that agrees with the launcher's counts, that of lend-run does not",
          "[network]") {
  for (auto const& other : kinds("1")) {
    if (other.launcher == &launch::lend_run) continue;
    Left by_hand{{"LEND_RANK", "0"}, {"LEND_SIZE", "2"}, {"LEND_DESK", "node1:4000"}};
    CHECK(must(starter(both(other.variables, by_hand), {})) == &launch::lend_run);
    by_hand["LEND_RANK"] = "1";
    CHECK(error_of(starter(both(other.variables, by_hand), {})) == Errc::invalid_argument);
    CHECK(error_of(starter(both(other.variables, kinds("2").front().variables), {})) ==
          Errc::invalid_argument);
  }
}

TEST_CASE("Open MPI and Slurm have a PMIx of their own, and what is of neither is a launcher",
          "[network]") {
  Left const pmix{{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "prterun-9"}};
  CHECK(must(starter(pmix, {})) == &launch::pmix);
  CHECK(must(starter(both(kinds("1")[3].variables, pmix), {})) == &launch::open_mpi);
  Left const slurm = kinds("3")[4].variables;
  for (auto const* const job : {"slurm.pmix.17.3", "slurm.pmix.17.33"}) {
    CAPTURE(job);
    bool const is_of_step = std::string_view{job}.ends_with(".3");
    auto const own = both(slurm, {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", job}});
    CHECK(launch::has_pmix(launch::slurm, made_of(own)) == is_of_step);
    CHECK((starter(own, {}).has_value() == is_of_step));
    CHECK(must(starter(own, {own, slurm})) == &launch::pmix);
  }
}

TEST_CASE("srun with PMI is one launcher, and PMI of another step is refused", "[network]") {
  auto own = both(kinds("3")[4].variables, kinds("6")[2].variables);
  for (auto const* const job : {"17.3", "17.2-1"}) {  // its own, and that of a spawned step
    own["PMI_JOBID"] = job;
    CHECK(must(starter(own, {})) == &launch::pmi);
  }
  own["PMI_JOBID"] = "17.2";
  auto const error = error_of(starter(own, {own, {}}));
  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains("PMI_JOBID is \"17.2\"") &&
                                  Catch::Contains("step 17.3") &&
                                  Catch::Contains("srun --mpi=pmi2"));
  // A launcher with PMI within the inner step has the same left-over.
  CHECK(must(starter(own, {own, kinds("3")[4].variables})) == &launch::pmi);
}

TEST_CASE("a process reads what it and its ancestors were started with, the nearest first",
          "[network]") {
  ::setenv("LEND_TEST_ADDED_LATER", "1", 1);
  auto const found = launch::environments_of_ancestors();
  ::unsetenv("LEND_TEST_ADDED_LATER");

  REQUIRE_FALSE(found.empty());
  CHECK(found.front()("PATH") == std::getenv("PATH"));
  CHECK(found.front()("LEND_TEST_ADDED_LATER").empty());
  CHECK(found.front()("PAT").empty());
  CHECK(found.front()("").empty());
}
