// SPDX-License-Identifier: MIT OR Apache-2.0
// Completes receives in a queue of any segment, and breaks a queue pair of it; run by the process
// that executes the request. Any thread.
#pragma once

#include <soft/platform/prefetch.hpp>
#include <soft/segment/completion_layout.hpp>
#include <soft/segment/layout.hpp>
#include <soft/segment/notify.hpp>

#include <cstdint>
#include <mutex>

namespace lend::soft {

class WakePipes;

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
                                      Claimant const&, WakePipes&) noexcept;

/// Makes a written completion valid, and counts it. The caller holds the queue's lock.
[[gnu::always_inline]] inline void publish(SharedCompletionQueue& queue, SharedCompletion& slot,
                                           std::uint64_t tail) noexcept {
  queue.intended_tail.set(tail + 1);
  // Release: the completion, and all bytes it speaks of. Pairs with the acquire in poll_cq.
  slot.sequence.store(tail + 1, std::memory_order_release);
  death_point();
  queue.tail.set(tail + 1);
}

/// A completion queue of a segment and its ring, as checked once. A ring is another one only when
/// it has grown.
struct KnownQueue {
  SharedCompletionQueue* queue = nullptr;
  SharedCompletion* ring = nullptr;
  std::uint32_t mask = 0;
};
/// `ring` is null where the segment says nonsense.
[[nodiscard]] KnownQueue know_queue(Segment&, std::uint32_t index) noexcept;
/// Publishes what `write(slot)` writes, of a success; in a stream the next one's line is fetched.
/// False: nothing was done, because it takes more: the queue grew, it may have no room, its lock is
/// held, its last producer died, its owner may have to be woken, or its completions have a time.
template <class Write>
[[nodiscard, gnu::always_inline]] inline bool push_plain(KnownQueue const& known,
                                                         Claimant const& claimant,
                                                         bool is_in_stream,
                                                         Write&& write) noexcept {
  auto& queue = *known.queue;
  if (!queue.lock.try_lock(claimant)) return false;
  RobustGuard const guard{queue.lock, std::adopt_lock};
  auto const tail = queue.tail.get();
  if (queue.ring_mask.get() != known.mask || queue.intended_tail.get() != tail ||
      tail - queue.head_seen.get() > known.mask || queue.notify.get() != 0) [[unlikely]]
    return false;
  auto& slot = known.ring[tail & known.mask];
  write(slot);
  publish(queue, slot, tail);
  if (is_in_stream) prefetch_to_write(&known.ring[(tail + 1) & known.mask]);
  return true;
}

/// Has the owner of a queue pair of `segment` look at it when it polls, with `marks` in `awaited`,
/// and wakes a thread that sleeps until its receives complete. The caller holds rx. If a lock does
/// not become free, nothing is done and that lock is returned; otherwise null.
[[nodiscard]] RobustLock const* call_receiver(Segment&, SharedQueuePair&, std::uint8_t marks,
                                              Claimant const&, WakePipes&) noexcept;
/// Moves a queue pair of `segment` to ERR, raises the `events` (see event_marks.hpp), and wakes
/// threads that sleep until a completion which this will flush. The caller holds rx. If a lock does
/// not become free, nothing is done and that lock is returned; otherwise null.
[[nodiscard]] RobustLock const* break_queue_pair(Segment&, SharedQueuePair&, std::uint32_t events,
                                                 Claimant const&, WakePipes&) noexcept;

}  // namespace lend::soft
