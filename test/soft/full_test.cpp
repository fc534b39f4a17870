// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a device that finds no room for its files says so by an error, leaves nothing behind, and
// opens once there is room; one that is open does not need any. Method: children with a rendezvous
// directory of a few bytes (a tmpfs in a mount namespace of their own), or a limit of file size.
#include <soft/segment/layout.hpp>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous.hpp"
#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr int refused = 77;

/// The exit status of a child that runs `body`.
template <class Body>
int in_child(Body const& body) {
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

bool write_file(char const* path, std::string const& text) {
  base::UniqueFd const file{::open(path, O_WRONLY | O_CLOEXEC)};
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<int>(text.size());
}

/// A mount namespace of our own; without privileges in a user namespace.
bool leave_mounts() {
  auto const user = std::to_string(::geteuid());
  auto const group = std::to_string(::getegid());
  bool const is_out =
      ::unshare(CLONE_NEWNS) == 0 ||
      (::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_file("/proc/self/setgroups", "deny") &&
       write_file("/proc/self/uid_map", user + " " + user + " 1") &&
       write_file("/proc/self/gid_map", group + " " + group + " 1"));
  return is_out && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// All bytes of the directory's file system, in one file.
bool fill(std::string const& path) {
  base::UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  char const page[4096] = {};
  while (file && ::write(file.get(), page, sizeof page) > 0) {
  }
  return file && errno == ENOSPC;
}

ibv_context* open_device() {
  auto** const list = ibv().get_device_list(nullptr);
  auto* const context = ibv().open_device(list[0]);
  auto const why = errno;
  ibv().free_device_list(list);
  errno = why;
  return context;
}

bool is_refused(int error, std::vector<std::string> const& words) {
  if (open_device() != nullptr || errno != error) return false;
  auto const* const told = ibv().last_reason();
  std::string_view const reason = told != nullptr ? told : "";
  return std::ranges::all_of(
      words, [&](auto const& word) { return reason.find(word) != std::string_view::npos; });
}

/// Whether memory of a size can be had, and written.
bool can_allocate(ibv_context* context, std::size_t length) {
  auto* const memory = ibv().allocate(context, length, {});
  if (memory == nullptr) return false;
  std::memset(memory, 1, length);
  ibv().release(context, memory, length);
  return true;
}

/// 0 when all is as it should be, `refused`, or the number of what is not.
int meet_in(Rendezvous const& rendezvous, int inodes) {
  auto const directory = rendezvous.path().string();
  auto const options = "mode=0700,size=4k,nr_inodes=" + std::to_string(inodes);
  if (!leave_mounts()) return refused;
  if (::mount("tmpfs", directory.c_str(), "tmpfs", 0, options.c_str()) != 0) return refused;
  auto const before = Holdings::now();
  if (!fill(directory + "/filler")) return 1;
  if (!is_refused(ENOSPC, {directory, "make room there, or set LEND_SOFT_DIRECTORY"})) return 2;
  if (Holdings::now() != before || rendezvous.slot_files() != 0) return 3;
  if (inodes < 3) return 0;  // a device needs two files
  if (::unlink((directory + "/filler").c_str()) != 0) return 4;
  auto* const context = open_device();
  if (context == nullptr) return 5;
  // Full again: all that is open goes on, for its memory lies elsewhere.
  if (!fill(directory + "/filler") && errno != ENOSPC) return 6;
  if (!can_allocate(context, std::size_t{20} << 20)) return 7;
  auto* const queue = ibv().create_cq(context, 1000, nullptr, nullptr, 0);
  if (queue == nullptr || ibv().destroy_cq(queue) != 0) return 8;
  return ibv().close_device(context) == 0 && rendezvous.slot_files() == 0 ? 0 : 9;
}

int stay_small() {
  ::signal(SIGXFSZ, SIG_DFL);  // a file that grows beyond the limit ends us. Source: setrlimit(2)
  auto const limit_to = [](std::size_t bytes) {
    rlimit const limit{bytes, RLIM_INFINITY};
    return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
  };
  auto const before = Holdings::now();
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{100}, soft::segment_bytes - 1}) {
    if (!limit_to(bytes)) return 1;
    if (!is_refused(EFBIG, {"no memory file of 512 MiB"})) return 2;
    if (Holdings::now() != before) return 3;
  }
  if (!limit_to(soft::segment_bytes)) return 4;
  auto* const context = open_device();
  if (context == nullptr) return 5;
  auto const opened = Holdings::now();
  if (ibv().allocate(context, 2 * soft::segment_bytes, {}) != nullptr || errno != EFBIG) return 6;
  if (Holdings::now() != opened) return 7;
  if (!can_allocate(context, 100) || !can_allocate(context, std::size_t{20} << 20)) return 8;
  if (!limit_to(RLIM_INFINITY)) return 9;
  return ibv().close_device(context) == 0 && Holdings::now() == before ? 0 : 10;
}

}  // namespace

TEST_CASE(
    "in a full rendezvous directory no device opens, one that is open goes on, and nothing is "
    "left",
    "[soft]") {
  Rendezvous const rendezvous;
  // The root and the filler; with the lock's file; with the slot's, which has no room for its text.
  auto const inodes = GENERATE(2, 3, 4);
  CAPTURE(inodes);

  auto const result = in_child([&] { return meet_in(rendezvous, inodes); });

  if (result == refused) {
    WARN("skipped: no mount namespace, or no tmpfs in it");
    return;
  }
  CHECK(result == 0);
}

TEST_CASE("a limit of file size refuses a device, or memory of it, by an error", "[soft]") {
  Rendezvous const rendezvous;

  CHECK(in_child(stay_small) == 0);

  CHECK(rendezvous.slot_files() == 0);
}
