// SPDX-License-Identifier: MIT OR Apache-2.0
// The producing side of completion queues, run by whichever CPU completes the work.
#include "completion_queue.hpp"

namespace lend::soft {

Pushed push_receive_end(Segment& segment, std::uint32_t index, ReceiveEnd const& end,
                        Claimant const& claimant) noexcept {
  if (index >= completion_queues_max) return Pushed::corrupt;
  auto& queue = segment.completion_queues[index];
  RobustGuard const guard{queue.lock, claimant};
  std::uint64_t const mask = queue.ring_mask.get();
  auto* const base = ring_at(segment, queue.ring_offset.get(), mask + 1, sizeof(SharedCompletion));
  if (base == nullptr) return Pushed::corrupt;
  auto* const ring = reinterpret_cast<SharedCompletion*>(base);

  auto tail = queue.tail.get();
  // A producer that died between publishing and counting left the tail one behind. The slot is
  // looked at only then: its line is with the consumer, who polls it.
  if (queue.intended_tail.get() != tail &&
      ring[tail & mask].sequence.load(std::memory_order_relaxed) == tail + 1)
    ++tail;
  if (tail - queue.head_seen.get() > mask) {
    // Acquire pairs with the release in poll_cq: the slot was read before it is written again.
    queue.head_seen.set(queue.head.load(std::memory_order_acquire));
    if (tail - queue.head_seen.get() > mask) {
      queue.overrun.set(1);
      return Pushed::overrun;
    }
  }
  auto& slot = ring[tail & mask];
  slot.queue_pair.set(end.queue_pair);
  slot.epoch.set(end.epoch);
  slot.receive.set(end.receive);
  slot.length.set(end.length);
  slot.immediate.set(end.immediate);
  slot.status.set(end.status);
  slot.kind.set(static_cast<std::uint8_t>(end.kind));
  slot.flags.set(end.flags);
  slot.inline_length.set(end.inline_length);
  for (unsigned i = 0; i * 8 < end.inline_length; ++i) slot.bytes[i].set(end.bytes[i]);
  queue.intended_tail.set(tail + 1);
  // Release: the completion, and all bytes it speaks of. Pairs with the acquire in poll_cq.
  slot.sequence.store(tail + 1, std::memory_order_release);
  death_point();
  queue.tail.set(tail + 1);
  return Pushed::yes;
}

bool push_local(CompletionQueue& queue, LocalCompletion const& end) noexcept {
  std::lock_guard const guard{queue.lock};
  if (queue.local_tail - queue.local_head > queue.mask) return false;
  queue.local[queue.local_tail++ & queue.mask] = end;
  return true;
}

}  // namespace lend::soft
