// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that the kernel keeps from another's memory is told the condition that fails, and
// no other. Method: a child gives up what the kernel asks for, and connects.
#include <soft/peers/host.hpp>
#include <soft/platform/reason.hpp>

#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "forbid.hpp"
#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

using Text = std::array<char, 256>;

bool has_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return ::syscall(SYS_capget, &header, data) == 0 && data[0].effective != 0;
}
bool give_up_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  return ::syscall(SYS_capset, &header, none) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

/// The same user, by number, in a namespace of its own.
bool enter_user_namespace() {
  auto const user = std::to_string(::geteuid());
  if (::unshare(CLONE_NEWUSER) != 0) return false;
  std::ofstream map{"/proc/self/uid_map"};
  map << user << ' ' << user << " 1" << std::flush;
  return map.good();
}

/// What a child is told that connects to this process after `change`; empty if it could not change.
std::string reason_after(bool (*change)()) {
  Rendezvous const rendezvous;
  PeerProcess child{[change](Wire const& wire) {
    std::uint32_t number = 0;
    if (!hear(wire, number)) return 1;
    Text text{};
    if (change()) {
      RawDevice const device;
      RawQueue const queue{device};
      RawPair const pair{device, queue};
      auto const error = pair.connect(number);
      auto const* const reason = soft::last_reason();
      std::snprintf(text.data(), text.size(), "%d: %s", error, reason == nullptr ? "" : reason);
    }
    return tell(wire, text) ? 0 : 2;
  }};
  RawDevice const device;
  RawQueue const queue{device};
  RawPair const pair{device, queue};
  Text text{};
  REQUIRE(tell(child.wire(), pair.number()));
  REQUIRE(hear(child.wire(), text));
  CHECK(child.exit_status() == 0);
  return text.data();
}

}  // namespace

TEST_CASE("who lacks capabilities of a peer is told that, first", "[two_process]") {
  if (!has_capabilities()) {
    WARN("skipped: this process has no capabilities");
    return;
  }
  CHECK_THAT(reason_after(give_up_capabilities),
             Catch::StartsWith(std::to_string(ENETUNREACH) + ": cannot map the memory of process " +
                               std::to_string(::getpid()) +
                               ": it has capabilities that this process lacks"));
}

TEST_CASE("who is in another user namespace than a peer is told that, first", "[two_process]") {
  auto const reason = reason_after(enter_user_namespace);
  if (reason.empty()) {
    WARN("skipped: no user namespaces here");
    return;
  }
  CHECK_THAT(reason,
             Catch::StartsWith(std::to_string(ENETUNREACH) + ": cannot map the memory of process " +
                               std::to_string(::getpid()) + ": it is in another user namespace"));
}

TEST_CASE("where prctl is forbidden, no process is said not to be dumpable", "[two_process]") {
  bool const is_possible = soft::cross_memory().possible();
  PeerProcess child{[](Wire const& wire) {
    Text text{};
    if (!forbid({SYS_prctl})) return 1;
    auto const found = soft::cross_memory();
    std::snprintf(text.data(), text.size(), "%s", found.possible() ? "possible" : found.obstacle);
    return tell(wire, text) ? 0 : 2;
  }};
  Text text{};
  REQUIRE(hear(child.wire(), text));
  CHECK(child.exit_status() == 0);
  std::string const found{text.data()};
  CHECK(found.find("dumpable") == found.npos);
  if (is_possible)
    CHECK((found == "possible" || found.find("prctl(PR_SET_PTRACER)") != found.npos));
}
