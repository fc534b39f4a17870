// SPDX-License-Identifier: MIT OR Apache-2.0
// Completion queues: a shared ring for receives, a private one for sends, and flushes. Any thread.
#pragma once

#include <soft/objects/context.hpp>
#include <soft/platform/clock.hpp>
#include <soft/segment/completion_ring.hpp>
#include <soft/segment/layout.hpp>

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace lend::soft {

struct CompletionChannel;

/// The end of a send, from post_send to poll_cq of the same process.
struct LocalCompletion {
  std::uint64_t id;
  ibv_wc_status status;
  ibv_wc_opcode opcode;
  std::uint32_t length;    // the vendor code where it failed
  std::uint32_t position;  // in the send queue
  QueuePair* queue_pair;
};

struct CompletionQueue : ibv_cq {
  // What an ibv_cq_ex has beyond an ibv_cq, at its very place: see extended_queue.cpp.
  alignas(ibv_cq_ex) std::byte extension[sizeof(ibv_cq_ex) - sizeof(ibv_cq)] = {};
  PrivateLock reading;             // from start_poll to end_poll; taken first
  ibv_wc current{};                // the completion that is read
  std::uint64_t current_time = 0;  // of it, where the queue is timed

  std::uint32_t index = 0;
  SharedCompletionQueue* shared = nullptr;
  SharedCompletion* ring = nullptr;
  std::uint64_t ring_offset = 0;
  std::uint32_t mask = 0;
  std::uint32_t users = 0;              // queue pairs, under Context::control
  CompletionChannel* events = nullptr;  // null: never armed
  std::uint32_t events_reported = 0;    // under the channel's mutex
  std::uint32_t async_reported = 0;     // under Context::control
  std::atomic<bool> owes_event{false};  // has rung for it, without the shared lock

  std::atomic<bool> fails{false};  // every poll: a planned fault
  bool is_timed = false;           // its completions have a time; for good

  PrivateLock lock;      // guards all below; taken last
  bool is_told = false;  // an event was taken, without a poll since
  std::uint64_t head = 0;
  std::unique_ptr<LocalCompletion[]> local;
  std::unique_ptr<std::uint64_t[]> local_times;  // of the same places, where the queue is timed
  std::uint64_t local_head = 0;
  std::uint64_t local_tail = 0;
  // Queue pairs in ERR: what they have posted and not completed is flushed by poll_cq itself.
  QueuePair* flushing_sends = nullptr;
  QueuePair* flushing_receives = nullptr;
};

static_assert(sizeof(ibv_cq) == offsetof(ibv_cq_ex, comp_mask));

/// The place of this position in the shared ring.
[[nodiscard]] inline SharedCompletion const& slot_at(CompletionQueue const& queue,
                                                     std::uint64_t position) noexcept {
  return queue.ring[position & queue.mask];
}
/// Whether it holds the completion of that position.
[[nodiscard]] inline bool is_published(SharedCompletion const& slot,
                                       std::uint64_t position) noexcept {
  // Acquire pairs with the release in push_receive_end().
  return slot.sequence.load(std::memory_order_acquire) == position + 1;
}
/// The completion at this position of the shared ring, or null.
[[nodiscard]] inline SharedCompletion const* published_at(CompletionQueue const& queue,
                                                          std::uint64_t position) noexcept {
  auto const& slot = slot_at(queue, position);
  return is_published(slot, position) ? &slot : nullptr;
}
/// The consumer's next one, or null.
[[nodiscard]] inline SharedCompletion const* first_published(
    CompletionQueue const& queue) noexcept {
  return published_at(queue, queue.head);
}
/// Behind the last completion published in the shared ring, as far as a sane segment goes. The
/// caller holds the lock of either side.
[[nodiscard]] inline std::uint64_t shared_tail(CompletionQueue const& queue) noexcept {
  auto const tail = std::clamp(queue.shared->tail.get(), queue.head, queue.head + queue.mask + 1);
  // A producer that died published and did not count.
  bool const is_behind =
      queue.ring[tail & queue.mask].sequence.load(std::memory_order_acquire) == tail + 1;
  return tail + (is_behind ? 1 : 0);
}
/// Whether there are queue pairs whose work polls flush. The caller holds the lock.
[[nodiscard]] inline bool has_flushes(CompletionQueue const& queue) noexcept {
  return queue.flushing_sends != nullptr || queue.flushing_receives != nullptr;
}
/// Lets producers write again what the consumer has read, up to its head.
inline void give_back_slots(CompletionQueue& queue) noexcept {
  // Release pairs with the producer's acquire: the slots were read before they are written again.
  queue.shared->head.store(queue.head, std::memory_order_release);
}
/// Bytes of its ring for each slot.
[[nodiscard]] inline std::size_t stride_of(CompletionQueue const& queue) noexcept {
  return queue.is_timed ? timed_stride : completion_stride;
}
/// Drops unpolled completions of `qp`, so that they take no room. The caller holds the
/// lock of the private ring, and for receives that of the shared one before.
/// Source: rdma-core providers/mlx5/cq.c, __mlx5_cq_clean().
void drop_sends_of(QueuePair const& qp) noexcept;
void drop_receives_of(QueuePair const& qp) noexcept;
/// Wakes who sleeps for this queue of ours, if it is armed for what was just published under its
/// lock.
void notify_owner(CompletionQueue&, bool is_solicited) noexcept;
/// Publishes the end of a send in fewer steps. False: nothing was done, because it takes more: a
/// thread holds the lock, the queue is full, its owner may have to be woken, or its completions
/// have a time.
[[nodiscard, gnu::always_inline]] inline bool push_plain_local(
    CompletionQueue& queue, LocalCompletion const& end) noexcept {
  if (!queue.lock.try_lock()) [[unlikely]]
    return false;
  auto const tail = queue.local_tail;
  // Arming takes this lock too: who arms later finds the completion when it polls.
  bool const is_plain = tail - queue.local_head <= queue.mask && queue.shared->notify.get() == 0;
  if (is_plain) [[likely]] {
    queue.local[tail & queue.mask] = end;
    queue.local_tail = tail + 1;
  }
  queue.lock.unlock();
  return is_plain;
}
/// Publishes what push_plain_local() left. False: the queue is full and the completion is lost.
[[nodiscard]] bool push_other_local(CompletionQueue& queue, LocalCompletion end) noexcept;
/// Publishes the end of a send. False: the queue is full and the completion is lost.
[[nodiscard, gnu::always_inline]] inline bool push_local(CompletionQueue& queue,
                                                         LocalCompletion const& end) noexcept {
  return push_plain_local(queue, end) || push_other_local(queue, end);
}
/// The same for what a poll will flush, which is published without that lock.
void notify_of_flush(CompletionQueue&) noexcept;
/// Whether a poll would find anything, as far as this process has noticed: only solicited
/// completions, or all. The caller holds the lock.
[[nodiscard]] bool has_unpolled(CompletionQueue const&, bool solicited_only) noexcept;

[[nodiscard]] ibv_cq* create_cq(ibv_context*, int entries, void* cq_context, ibv_comp_channel*,
                                int vector) noexcept;
/// The same; of a timed queue each completion has the time when it came to be.
[[nodiscard]] ibv_cq* make_cq(ibv_context*, int entries, void* cq_context, ibv_comp_channel*,
                              int vector, bool is_timed) noexcept;
int resize_cq(ibv_cq*, int entries) noexcept;
int destroy_cq(ibv_cq*) noexcept;
int req_notify_cq(ibv_cq*, int solicited_only) noexcept;

}  // namespace lend::soft
