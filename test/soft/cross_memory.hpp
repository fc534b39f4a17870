// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes that lack some of cross-memory attach, and an end of a connection for each.
#pragma once

#include <sys/syscall.h>
#include <soft/peers/host.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/bounce.hpp>

#include <string>

#include "forbid.hpp"
#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

namespace lend::test {

enum class Lacks : std::uint8_t { nothing, reading, writing, all, all_by_variable };

inline bool reads(Lacks lacks) {
  return lacks == Lacks::nothing || lacks == Lacks::writing;
}
inline bool writes(Lacks lacks) {
  return lacks == Lacks::nothing || lacks == Lacks::reading;
}
inline bool give_up(Lacks lacks) {
  switch (lacks) {
    case Lacks::nothing: return true;
    case Lacks::reading: return forbid({SYS_process_vm_readv});
    case Lacks::writing: return forbid({SYS_process_vm_writev});
    case Lacks::all: return forbid({SYS_process_vm_readv, SYS_process_vm_writev});
    case Lacks::all_by_variable: return ::setenv("LEND_SOFT_CMA", "never", 1) == 0;
  }
  return false;
}

inline bool is_skipped() {
  if (!soft::cross_memory().possible()) WARN("skipped: " << soft::cross_memory().obstacle);
  return !soft::cross_memory().possible();
}

/// Runs `near` and `far`, each in a process of its own that lacks what is said: 0 when both did.
template <class Near, class Far>
int run_both(Lacks near_lacks, Near near, Lacks far_lacks, Far far) {
  PeerProcess first{[=](Wire const&) {
    PeerProcess second{[=](Wire const& wire) {
      REQUIRE(give_up(far_lacks));
      far(wire);
      return 0;
    }};
    REQUIRE(give_up(near_lacks));
    near(second.wire());
    return second.exit_status();
  }};
  return first.exit_status();
}

inline void fill(std::byte* at, std::size_t length, unsigned number) {
  for (std::size_t i = 0; i < length; ++i)
    at[i] = static_cast<std::byte>((number * 2654435761u + i * 31) >> 5);
}
inline bool holds(std::byte const* at, std::size_t length, unsigned number) {
  for (std::size_t i = 0; i < length; ++i)
    if (at[i] != static_cast<std::byte>((number * 2654435761u + i * 31) >> 5)) return false;
  return true;
}

inline bool says_why() {
  auto const* const reason = soft::last_reason();
  return reason != nullptr &&
         std::string{reason}.find("cross-memory attach (") != std::string::npos;
}

/// One end of a connection.
struct Side {
  RawDevice device;
  RawMemory memory;
  RawChannel channel{device};
  RawQueue queue{device, 256, &channel};
  RawPool pool{device, 64};
  RawPair link;

  Side(Where where, std::size_t length, bool has_pool = false, Builders builders = Builders::no)
      : memory{device, length, where},
        link{device, queue, 64, has_pool ? pool.get() : nullptr, builders} {}

  void meet(Wire const& wire) const {
    std::uint32_t theirs = 0;
    REQUIRE(tell(wire, link.number()));
    REQUIRE(hear(wire, theirs));
    REQUIRE(link.connect(theirs) == 0);
    REQUIRE(wire.say());
    REQUIRE(wire.hear());
  }
  /// Asleep until it is there.
  ibv_wc next_asleep() const {
    for (;;) {
      ibv_wc end{};
      REQUIRE(::ibv_req_notify_cq(queue.get(), 0) == 0);
      if (queue.poll(1, &end) == 1) return end;
      REQUIRE(channel.wait(20'000));
    }
  }
};

}  // namespace lend::test
