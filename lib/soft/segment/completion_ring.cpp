// SPDX-License-Identifier: MIT OR Apache-2.0
// The producing side of completion queues, run by whichever CPU completes the work.
#include <soft/segment/completion_ring.hpp>

#include <soft/platform/clock.hpp>
#include <soft/segment/event_marks.hpp>
#include <soft/segment/wake_pipe.hpp>

#include <algorithm>
#include <mutex>
#include <optional>

namespace lend::soft {

namespace {

Rung wake_owner(SharedCompletionQueue& queue, WakePipes& wake_pipes) noexcept {
  auto rung = Rung::yes;
  announce(queue.notify, [&] {
    rung = wake_pipes.wake(queue.wake);
    return rung == Rung::yes;
  });
  return rung;
}

/// Of a completion that is about to be published at `tail`: its time, and the wake-up. False: its
/// owner sleeps and cannot be woken.
[[gnu::noinline]] bool attend(Segment& segment, SharedCompletionQueue& queue, std::uint64_t tail,
                              ReceiveEnd const& end, WakePipes& wake_pipes) noexcept {
  if ((queue.notify.get() & notify_timed) != 0) {
    std::uint64_t const mask = queue.ring_mask.get();
    auto* const base = ring_at(segment, queue.ring_offset.get(), mask + 1, timed_stride);
    if (base != nullptr) time_of(reinterpret_cast<SharedCompletion*>(base), mask, tail).set(now());
  }
  return !is_due(queue.notify, end.is_solicited || end.status != IBV_WC_SUCCESS) ||
         wake_owner(queue, wake_pipes) != Rung::unable;
}

[[gnu::noinline]] void write_bytes(SharedCompletion& slot, CompletionRest& rest,
                                   ReceiveEnd const& end) noexcept {
  auto const* next = end.bytes;
  for (auto& word : slot.bytes) word.set(*next++);
  for (auto& word : rest.bytes) {
    if ((next - end.bytes) * 8 >= end.inline_length) return;
    word.set(*next++);
  }
}

}  // namespace

KnownQueue know_queue(Segment& segment, std::uint32_t index) noexcept {
  if (index >= completion_queues_max) return {};
  auto& queue = segment.completion_queues[index];
  auto const offset = queue.ring_offset.get();
  auto const mask = queue.ring_mask.get();
  auto* const ring = ring_at(segment, offset, std::uint64_t{mask} + 1, completion_stride);
  return {&queue, reinterpret_cast<SharedCompletion*>(ring), mask};
}

Pushed push_receive_end(Segment& segment, std::uint32_t index, ReceiveEnd const& end,
                        Claimant const& claimant, WakePipes& wake_pipes) noexcept {
  if (index >= completion_queues_max) return Pushed::corrupt;
  auto& queue = segment.completion_queues[index];
  if (!queue.lock.lock_in_time(claimant)) return Pushed::held;
  RobustGuard const guard{queue.lock, std::adopt_lock};
  auto const known = know_queue(segment, index);
  auto* const ring = known.ring;
  if (ring == nullptr) return Pushed::corrupt;
  std::uint64_t const mask = known.mask;

  auto tail = queue.tail.get();
  // A producer that died between publishing and counting left the tail one behind. The slot is
  // looked at only then: its line is with the consumer, who polls it. It is counted for all to see:
  // should we die there, too, the tail is one behind again, not two.
  if (queue.intended_tail.get() != tail &&
      ring[tail & mask].sequence.load(std::memory_order_relaxed) == tail + 1)
    queue.tail.set(++tail);
  if (tail - queue.head_seen.get() > mask) {
    // Acquire pairs with the release in poll_cq: the slot was read before it is written again.
    queue.head_seen.set(queue.head.load(std::memory_order_acquire));
    if (tail - queue.head_seen.get() > mask) {
      // Without the token no thread would look: then the next overrun raises it.
      if (queue.overrun.get() == 0 && wake_pipes.wake(segment.header.async) != Rung::unable)
        queue.overrun.set(event_untold);
      return Pushed::overrun;
    }
  }
  auto& slot = ring[tail & mask];
  slot.receiver.set(receiver_name(end.queue_pair, end.epoch));
  slot.receive.set(end.receive);
  slot.length.set(end.length);
  slot.immediate.set(end.immediate);
  slot.how.set(ReceiveHow::of(end.status, end.kind, end.flags, end.inline_length).word);
  if (end.kind == ReceiveKind::wide) [[unlikely]]
    write_bytes(slot, rest_of(ring, mask, tail), end);
  else
    for (unsigned i = 0; i * 8 < end.inline_length; ++i) slot.bytes[i].set(end.bytes[i]);
  if (queue.notify.get() != 0) [[unlikely]]
    if (!attend(segment, queue, tail, end, wake_pipes)) return Pushed::unheard;
  // Not before: while a lock keeps the error back, its queue pair is as it was.
  if (end.status != IBV_WC_SUCCESS && end.marks != 0) [[unlikely]]
    raise_events(segment, segment.queue_pairs[end.queue_pair], end.marks, wake_pipes);
  publish(queue, slot, tail);
  // The consumer read that line a lap ago: its next writer would wait for it, holding locks. Not in
  // a ping-pong: there the consumer polls it.
  if (end.is_in_stream) prefetch_to_write(&ring[(tail + 1) & mask]);
  return Pushed::yes;
}

RobustLock const* call_receiver(Segment& segment, SharedQueuePair& called, std::uint8_t marks,
                                Claimant const& claimant, WakePipes& wake_pipes) noexcept {
  auto const index = called.completion_queue.get();
  if (index >= completion_queues_max) return nullptr;
  auto& queue = segment.completion_queues[index];
  // Who arms later finds the trouble, or polls and finds it.
  if (!queue.lock.lock_in_time(claimant)) return &queue.lock;
  RobustGuard const guard{queue.lock, std::adopt_lock};
  if (is_due(queue.notify, true)) (void)wake_owner(queue, wake_pipes);
  called.awaited.fetch_or(marks);
  // Release pairs with the acquire in the owner's poll_cq: the marks are seen then.
  segment.header.trouble.fetch_add(1, std::memory_order_release);
  return nullptr;
}

RobustLock const* break_queue_pair(Segment& segment, SharedQueuePair& broken, std::uint32_t events,
                                   Claimant const& claimant, WakePipes& wake_pipes) noexcept {
  auto const [low, high] =
      std::minmax({broken.completion_queue.get(), broken.send_completion_queue.get()});
  if (high >= completion_queues_max) return nullptr;
  auto& first = segment.completion_queues[low];
  auto& second = segment.completion_queues[high];
  // Both locks, in order of index: who arms later sees the state when it polls.
  if (!first.lock.lock_in_time(claimant)) return &first.lock;
  RobustGuard const of_first{first.lock, std::adopt_lock};
  std::optional<RobustGuard> of_second;
  if (high != low) {
    if (!second.lock.lock_in_time(claimant)) return &second.lock;
    of_second.emplace(second.lock, std::adopt_lock);
  }
  for (auto* const queue : {&first, &second})
    if (is_due(queue->notify, true)) (void)wake_owner(*queue, wake_pipes);
  // First the mark: an owner that notices the trouble finds it, and moves the queue pair to ERR
  // itself; its receives are flushed once we left rx. So should we die before the last store, the
  // owner does what we wanted.
  raise_events(segment, broken, events | is_breaking, wake_pipes);
  // Release pairs with the acquire in the owner's poll_cq, which then asks looks_broken().
  segment.header.trouble.fetch_add(1, std::memory_order_release);
  death_point();
  broken.state.store(IBV_QPS_ERR, std::memory_order_release);
  return nullptr;
}

}  // namespace lend::soft
