// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what the environment of a program with file capabilities says is refused, by one error that
// no program takes for "nobody started me with others". Method: root gives a copy of this program
// capabilities, and starts it as another user, whom the kernel then gives AT_SECURE.
#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <lend/launch/seat.hpp>
#include <lend/open_device.hpp>
#include <observe/observer.hpp>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr uid_t other_user = 12345;
constexpr int is_not_secure = 77;
constexpr auto within_copy = "in a program with file capabilities";

/// Permits and raises CAP_IPC_LOCK, as sites give it to RDMA programs.
bool give_capability(std::string const& path) {
  vfs_cap_data data{};
  data.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
  data.data[0].permitted = 1u << CAP_IPC_LOCK;
  return ::setxattr(path.c_str(), "security.capability", &data, sizeof data, 0) == 0;
}

/// The status of `program` with these variables and no other, as another user.
int run_as_other(std::string const& program, std::vector<std::string> variables) {
  std::vector<char*> environment;
  for (auto& one : variables) environment.push_back(one.data());
  environment.push_back(nullptr);
  std::string name = program, test = within_copy;
  std::array<char*, 3> words{name.data(), test.data(), nullptr};
  auto const child = ::fork();
  if (child == 0) {
    if (::setresgid(other_user, other_user, other_user) != 0 ||
        ::setresuid(other_user, other_user, other_user) != 0)
      ::_exit(is_not_secure);
    ::execve(program.c_str(), words.data(), environment.data());
    ::_exit(is_not_secure);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Ends the copy with another status where `error` is not what AT_SECURE is to give.
void check_refused(Error const& error, std::string const& variable) {
  CHECK(error == Errc::denied);
  CHECK_THAT(error.message(), Catch::Contains(variable + " is set") &&
                                  Catch::Contains("AT_SECURE") &&
                                  Catch::Contains("file capabilities"));
}

}  // namespace

// Run by the test below, of a copy: what is set is refused where it would count.
TEST_CASE("in a program with file capabilities", "[.]") {
  if (::getauxval(AT_SECURE) == 0) std::_Exit(is_not_secure);
  auto const is_set = [](char const* name) { return std::getenv(name) != nullptr; };
  for (auto const* const rank : {"LEND_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (is_set(rank)) check_refused(error_of(Seat::from_environment()), rank);
  if (is_set("LEND_DEVICE")) {
    check_refused(error_of(open_device()), "LEND_DEVICE");
    CHECK(error_of(Seat::from_environment()) == Errc::not_found);
    return;
  }
  for (auto const* const name : {"LEND_SOFT_DIRECTORY", "LEND_SOFT_FAULTS"})
    if (is_set(name)) check_refused(error_of(open_device(DeviceChoice::soft())), name);
  if (is_set("LEND_TRAFFIC_CLASS"))
    check_refused(error_of(must(open_device(DeviceChoice::soft())).settings()),
                  "LEND_TRAFFIC_CLASS");
  if (!is_set("LEND_RECORD")) return;
  auto const refused = observe::directory_for("");
  check_refused(error_of(refused), "LEND_RECORD");
  observe::Observer observer{""};
  observer.record_in(refused);
  CHECK(observer.metrics.recording_failure.value() == Errc::denied);
  CHECK(must(observe::directory_for("/here")) == "/here");
}

TEST_CASE("a program with file capabilities refuses what its user's environment says",
          "[network]") {
  auto const folder =
      std::filesystem::temp_directory_path() / ("lend-secure-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 0755);
  auto const copy = (folder / "copy").string();
  std::filesystem::copy_file("/proc/self/exe", copy);
  bool const can = ::geteuid() == 0 && give_capability(copy);
  if (!can || run_as_other(copy, {}) == is_not_secure) {
    WARN("skipped: no file capabilities here, or this user may not give them");
  } else {
    for (std::vector<std::string> const& variables :
         {std::vector<std::string>{},
          {"LEND_RANK=0", "LEND_SIZE=1"},
          {"PMI_RANK=0", "PMI_SIZE=1"},
          {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"},
          {"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0"},
          {"LEND_DEVICE=soft"},
          {"LEND_SOFT_DIRECTORY=/tmp/x"},
          {"LEND_SOFT_FAULTS=drop@3"},
          {"LEND_TRAFFIC_CLASS=106"},
          {"LEND_RECORD=/tmp/x"}}) {
      CAPTURE(variables);
      CHECK(run_as_other(copy, variables) == 0);
    }
  }
  std::filesystem::remove_all(folder);
}
