// SPDX-License-Identifier: MIT OR Apache-2.0
// Completion queues: a shared ring for receives, a private one for sends, and flushes. Any thread.
#pragma once

#include "context.hpp"
#include "layout.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace lend::soft {

struct CompletionChannel;
class Wakers;

/// The end of a send, from post_send to poll_cq of the same process.
struct LocalCompletion {
  QueuePair* queue_pair;
  std::uint64_t id;
  std::uint32_t position;  // in the send queue
  std::uint32_t length;
  std::uint32_t vendor;
  std::uint8_t status;
  std::uint8_t opcode;
};

struct CompletionQueue : ibv_cq {
  // What an ibv_cq_ex has beyond an ibv_cq, at its very place: see extended_queue.cpp.
  alignas(ibv_cq_ex) std::byte extension[sizeof(ibv_cq_ex) - sizeof(ibv_cq)] = {};
  PrivateLock reading;  // from start_poll to end_poll; taken first
  ibv_wc current{};     // the completion that is read

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

  PrivateLock lock;      // guards all below; taken last
  bool is_told = false;  // an event was taken, and nobody has polled since
  std::uint64_t head = 0;
  std::unique_ptr<LocalCompletion[]> local;
  std::uint64_t local_head = 0;
  std::uint64_t local_tail = 0;
  // Queue pairs in ERR: what they have posted and not completed is flushed by poll_cq itself.
  QueuePair* flushing_sends = nullptr;
  QueuePair* flushing_receives = nullptr;
};

static_assert(sizeof(ibv_cq) == offsetof(ibv_cq_ex, comp_mask));

/// What the CPU of a peer says about a receive that ended.
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
  bool is_in_stream = false;                              // another is likely to follow at once
  std::uint64_t bytes[SharedCompletion::inline_max / 8];  // inline_length of them count
};

/// Unheard: its owner must be woken for it, and there is no descriptor to do that by. Held: the
/// queue's lock did not come free.
enum class Pushed { yes, overrun, corrupt, unheard, held };
/// Publishes in completion queue `index` of `segment`, which may be another process's, and wakes
/// its owner if that has asked.
[[nodiscard]] Pushed push_receive_end(Segment&, std::uint32_t index, ReceiveEnd const&,
                                      Claimant const&, Wakers&) noexcept;
/// Moves a queue pair of `segment` to ERR, tells of the `events` (see async_events.hpp), and wakes
/// whoever sleeps for what that will flush. The caller holds rx. Nothing is done if a lock does not
/// come free, which is returned; else null.
[[nodiscard]] RobustLock const* break_queue_pair(Segment&, SharedQueuePair&, std::uint32_t events,
                                                 Claimant const&, Wakers&) noexcept;
/// The consumer's next completion of the shared ring, or null.
[[nodiscard]] inline SharedCompletion const* first_published(
    CompletionQueue const& queue) noexcept {
  auto const& slot = queue.ring[queue.head & queue.mask];
  // Acquire pairs with the release in push_receive_end().
  return slot.sequence.load(std::memory_order_acquire) == queue.head + 1 ? &slot : nullptr;
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
/// Lets producers write again what the consumer has read, up to its head.
inline void give_back_slots(CompletionQueue& queue) noexcept {
  // Release pairs with the producer's acquire: the slots were read before they are written again.
  queue.shared->head.store(queue.head, std::memory_order_release);
}
/// Leaves out what `qp` completed and nobody polled, so that it takes no room. The caller holds the
/// lock of the private ring, and for receives that of the shared one before.
/// Source: rdma-core providers/mlx5/cq.c, __mlx5_cq_clean().
void drop_sends_of(QueuePair const& qp) noexcept;
void drop_receives_of(QueuePair const& qp) noexcept;
/// Wakes who sleeps for this queue of ours, if it is armed for what was just published under its
/// lock.
void notify_owner(CompletionQueue&, bool is_solicited) noexcept;
/// The same for what a poll will flush, which is published without that lock.
void notify_of_flush(CompletionQueue&) noexcept;
/// Whether a poll would find anything, as far as this process has noticed; of what only a wish for
/// solicited completions is told, or of all. The caller holds the lock.
[[nodiscard]] bool has_unpolled(CompletionQueue const&, bool solicited_only) noexcept;

[[nodiscard]] ibv_cq* create_cq(ibv_context*, int entries, void* cq_context, ibv_comp_channel*,
                                int vector) noexcept;
int resize_cq(ibv_cq*, int entries) noexcept;
int destroy_cq(ibv_cq*) noexcept;
int poll_cq(ibv_cq*, int count, ibv_wc*) noexcept;
int req_notify_cq(ibv_cq*, int solicited_only) noexcept;

}  // namespace lend::soft
