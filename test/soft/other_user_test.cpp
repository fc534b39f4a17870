// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a process shares by the soft device is out of reach of other users of the host, and
// their devices work beside. Method: as root, which may become others: one user holds a device and
// a secret, another tries every way to them.
#include <soft/objects/context.hpp>
#include <soft/peers/host.hpp>

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

// Ids that the system gives to nobody in particular. Source: Debian policy manual, 9.2.2.
constexpr uid_t owning_user = 65533;
constexpr uid_t intruder = 65534;

struct OwnersDevice {
  int pid = 0;
  int segment = -1;  // its descriptor
  std::uint64_t secret = 0;
  std::uint32_t number = 0;
  char directory[64]{};
};

/// From here on a process of that user, as if logged in: dumpable, without groups of root's.
bool become(uid_t user) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(user, user, user) == 0 &&
         ::setresuid(user, user, user) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

/// From here on soft devices of this process and its children meet in a new directory, `path`.
bool meet_in_new_directory(char (&path)[64]) {
  std::snprintf(path, sizeof path, "/tmp/lend-test-XXXXXX");
  return ::mkdtemp(path) != nullptr && ::setenv("LEND_SOFT_DIRECTORY", path, 1) == 0;
}
void remove_directory(char const* path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

int hold_as_owner(Wire const& wire) {
  OwnersDevice told;
  if (!become(owning_user) || !meet_in_new_directory(told.directory)) return 1;
  int result = 0;
  {
    RawDevice const device;
    RawMemory const memory{device, 64, Where::private_memory};
    RawQueue const queue{device};
    RawPair const pair{device, queue};
    told.pid = ::getpid();
    told.segment = soft::Context::of(device.context()).segment_file.get();
    told.secret = memory.remote().address;
    told.number = pair.number();
    if (!tell(wire, told) || !wire.hear()) result = 2;
    for (std::size_t i = 0; i < 64; ++i)
      if (memory.at()[i] != std::byte{0}) result = 3;
  }
  remove_directory(told.directory);
  return result;
}

bool is_refused(int error) {
  return error == EACCES || error == EPERM;
}

/// 0 when every way was closed, else its number.
int intrude(Wire const& wire, bool is_of_owner) {
  OwnersDevice told;
  if (!hear(wire, told) || !become(is_of_owner ? owning_user : intruder)) return 20;
  std::string const directory = told.directory;
  if (::access((directory + "/slot.1").c_str(), F_OK) == 0 || errno != EACCES) return 1;
  if (::open((directory + "/lock").c_str(), O_RDWR | O_CLOEXEC) >= 0 || errno != EACCES) return 2;
  auto const shared = "/proc/" + std::to_string(told.pid) + "/fd/" + std::to_string(told.segment);
  if (::open(shared.c_str(), O_RDWR | O_CLOEXEC) >= 0 || !is_refused(errno)) return 3;
  char bytes[8] = "gotcha!";
  iovec const here{bytes, sizeof bytes};
  iovec const there{reinterpret_cast<void*>(told.secret), sizeof bytes};
  if (::process_vm_readv(told.pid, &here, 1, &there, 1, 0) >= 0 || errno != EPERM) return 4;
  if (::process_vm_writev(told.pid, &here, 1, &there, 1, 0) >= 0 || errno != EPERM) return 5;
  if (auto const pidfd = static_cast<int>(::syscall(SYS_pidfd_open, told.pid, 0)); pidfd >= 0) {
    if (::syscall(SYS_pidfd_getfd, pidfd, told.segment, 0) >= 0) return 6;
    if (!is_refused(errno) && errno != ENOSYS) return 7;
  }
  // In the owner's directory no device opens.
  if (::setenv("LEND_SOFT_DIRECTORY", told.directory, 1) != 0) return 20;
  if (open_or_null() != nullptr || errno != EACCES) return 8;
  if (ibv().last_reason() == nullptr) return 9;
  // In one of its own one does, and meets nobody.
  char own[64];
  if (!meet_in_new_directory(own)) return 20;
  int result = 0;
  {
    RawDevice const device;
    RawMemory const memory{device, 64};
    RawQueue const queue{device};
    RawPair const loop{device, queue};
    RawPair const stray{device, queue};
    // Above its own slot: numbers of slot 1 would be its own.
    if (stray.connect(told.number + (1u << soft::index_bits)) != ENETUNREACH) result = 10;
    if (loop.connect(loop.number()) != 0) result = 11;
    if (loop.write(1, memory.piece(0, 8), memory.remote(8)) != 0) result = 12;
    ibv_wc end{};
    while (queue.poll(1, &end) == 0) ::sched_yield();
    if (end.status != IBV_WC_SUCCESS) result = 13;
  }
  remove_directory(own);
  return result;
}

}  // namespace

TEST_CASE("another user gets at nothing that a device shares, and has one of his own beside it",
          "[two_process]") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can act as two users");
    return;
  }
  PeerProcess holder{hold_as_owner};
  OwnersDevice told;
  if (!hear(holder.wire(), told)) {
    REQUIRE(holder.exit_status() == 1);
    WARN("skipped: this root may not become other users");
    return;
  }
  PeerProcess other{[](Wire const& wire) { return intrude(wire, false); }};
  REQUIRE(tell(other.wire(), told));
  CHECK(other.exit_status() == 0);
  // That the ways lead there at all: who is the same user passes the first.
  PeerProcess same{[](Wire const& wire) { return intrude(wire, true); }};
  REQUIRE(tell(same.wire(), told));
  CHECK(same.exit_status() == 1);
  REQUIRE(holder.wire().say());
  CHECK(holder.exit_status() == 0);
}
