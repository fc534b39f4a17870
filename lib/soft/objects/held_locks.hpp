// SPDX-License-Identifier: MIT OR Apache-2.0
// Waiting, for a bounded time, until another process lets go of a lock of ours. Any thread.
//
// A process that a signal or a debugger stopped in the middle of a request holds the locks that it
// took in our segment, and still writes what they guard when it goes on. So they are not taken from
// it, and nothing waits for it without a bound.
#pragma once

#include <soft/platform/clock.hpp>
#include <soft/platform/robust_lock.hpp>

#include <cstdint>

namespace lend::soft {

struct Context;

/// How long a call that changes or ends an object waits, in nanoseconds.
inline constexpr std::uint64_t holder_patience = 2'000'000'000;

/// EBUSY, with a reason that names the process.
[[nodiscard]] int fail_held(Context const&, RobustLock const&) noexcept;

/// Whether a lock that was held before may be free now: it has no holder, or its holder is dead,
/// which is asked once a tick. `asked_at` is when.
[[nodiscard]] bool may_come_free(Context&, RobustLock const&, std::uint64_t& asked_at) noexcept;

/// About a millisecond between two attempts, without a lock: an attempt holds locks of this process
/// for milliseconds, which other threads want, too.
void rest_between_attempts() noexcept;

/// Calls attempt() until it returns null, for `patience` nanoseconds, and once at least. It takes
/// its locks in time; where one is held it changes nothing, releases all that it took, and returns
/// that one. 0, or EBUSY with reason: a later call can succeed.
template <class Attempt>
[[nodiscard]] int wait_for_holders(Context const& context, Attempt attempt,
                                   std::uint64_t patience = holder_patience) {
  auto const end = now() + patience;
  for (;;) {
    RobustLock const* const held = attempt();
    if (held == nullptr) return 0;
    if (now() >= end) return fail_held(context, *held);
    rest_between_attempts();
  }
}

}  // namespace lend::soft
