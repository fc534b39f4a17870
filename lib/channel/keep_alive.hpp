// SPDX-License-Identifier: MIT OR Apache-2.0
// Asking the peer's device now and then whether it is there. The thread of the channel.
#pragma once

#include <base/slot_table.hpp>
#include <lend/base/deadline.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <chrono>
#include <cstdint>

namespace lend {

/// Shorter ones would ask again before an answer can be there.
inline constexpr std::chrono::milliseconds keep_alive_shortest{1};

/// When a channel looks for its peer, and asks it next.
struct KeepAlive {
  /// The work request's id. No slot has it: see SlotId.
  static constexpr std::uint64_t probe_id = 0;

  std::chrono::nanoseconds interval;  // 0: off
  bool is_asked = false;              // a probe is outstanding: one at a time
  Deadline next;
  std::uint32_t empty_polls = 0;  // since the channel began; wraps
  Deadline next_look;             // of a program that polls

  KeepAlive(QueuePair const& queue_pair, std::chrono::nanoseconds wished) noexcept
      : interval{queue_pair.is_acknowledged() ? wished : wished.zero()},
        next{within(interval)},
        next_look{Deadline::Clock::now()} {}
  [[nodiscard]] bool is_on() const noexcept { return interval > interval.zero(); }
};

}  // namespace lend
