// SPDX-License-Identifier: MIT OR Apache-2.0
// Completes receives in a queue of any segment, and breaks a queue pair of it; run by the process
// that executes the request. Any thread.
#pragma once

#include <soft/segment/completion_layout.hpp>
#include <soft/segment/layout.hpp>

#include <cstdint>

namespace lend::soft {

class Wakers;

/// The completion of a receive, as written by a peer's CPU.
struct ReceiveEnd {
  std::uint32_t queue_pair;  // index
  std::uint32_t epoch;
  std::uint32_t receive;
  std::uint32_t length;
  std::uint32_t immediate;
  std::uint8_t status;
  ReceiveKind kind;
  std::uint8_t flags;
  std::uint8_t inline_length;
  bool is_solicited;
  std::uint32_t marks;        // of an error: raised at its queue pair as this is published
  bool is_in_stream = false;  // another is likely to follow at once
  std::uint64_t bytes[SharedCompletion::inline_max / 8];  // inline_length of them count
};

/// Unheard: its owner must be woken, and there is no descriptor for that. Held: the queue's lock
/// did not become free.
enum class Pushed { yes, overrun, corrupt, unheard, held };
/// Publishes in completion queue `index` of `segment`, which may be another process's, and wakes
/// its owner if the queue is armed.
[[nodiscard]] Pushed push_receive_end(Segment&, std::uint32_t index, ReceiveEnd const&,
                                      Claimant const&, Wakers&) noexcept;
/// Moves a queue pair of `segment` to ERR, raises the `events` (see event_marks.hpp), and wakes
/// threads that sleep until a completion which this will flush. The caller holds rx. If a lock does
/// not become free, nothing is done and that lock is returned; otherwise null.
[[nodiscard]] RobustLock const* break_queue_pair(Segment&, SharedQueuePair&, std::uint32_t events,
                                                 Claimant const&, Wakers&) noexcept;

}  // namespace lend::soft
