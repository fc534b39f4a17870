// SPDX-License-Identifier: MIT OR Apache-2.0
// Making and destroying completion queues.
#include "completion_queue.hpp"

#include "async_events.hpp"
#include "completion_channel.hpp"
#include "extended.hpp"
#include "reason.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>

namespace lend::soft {

ibv_cq* create_cq(ibv_context* opened, int entries, void* cq_context, ibv_comp_channel* channel,
                  int vector) noexcept try {
  auto& context = Context::of(opened);
  if (context.check_ours() != 0) return nullptr;
  if (entries < 1 || static_cast<std::uint32_t>(entries) > completions_max || vector != 0) {
    fail(EINVAL, "a completion queue of the soft device has 1 to %u entries and vector 0",
         completions_max);
    return nullptr;
  }
  auto const capacity = std::bit_ceil(static_cast<std::uint32_t>(entries));
  auto queue = std::make_unique<CompletionQueue>();
  queue->local = std::make_unique_for_overwrite<LocalCompletion[]>(capacity);

  std::lock_guard const guard{context.control};
  auto const free =
      std::find(context.completion_queues.begin(), context.completion_queues.end(), nullptr);
  if (free == context.completion_queues.end()) {
    fail(ENOMEM, "the soft device has at most %u completion queues", completion_queues_max);
    return nullptr;
  }
  if (channel != nullptr) make_room(*static_cast<CompletionChannel*>(channel));
  queue->ring_offset = context.take_ring(capacity * sizeof(SharedCompletion));
  if (queue->ring_offset == 0) return nullptr;
  queue->context = opened;
  queue->cq_context = cq_context;
  queue->index = static_cast<std::uint32_t>(free - context.completion_queues.begin());
  queue->handle = queue->index;
  queue->cqe = static_cast<int>(capacity);
  queue->mask = capacity - 1;
  auto& shared = context.segment.completion_queues[queue->index];
  queue->shared = &shared;
  queue->ring = reinterpret_cast<SharedCompletion*>(
      ring_at(context.segment, queue->ring_offset, capacity, sizeof(SharedCompletion)));
  {
    // The lock's word stays as it is: somebody late may be in it.
    RobustGuard const producers{shared.lock, context.claimant};
    shared.overrun.set(0);
    shared.notify.set(0);
    shared.wake.inode.set(0);
    shared.tail.set(0);
    shared.intended_tail.set(0);
    shared.head_seen.set(0);
    shared.head.store(0, std::memory_order_relaxed);
    shared.ring_offset.set(queue->ring_offset);
    shared.ring_mask.set(queue->mask);
  }
  ::pthread_mutex_init(&queue->mutex, nullptr);
  ::pthread_cond_init(&queue->cond, nullptr);
  fill_readers(*queue);
  // Whole before it can be found: a corrupt peer may announce it at once.
  if (channel != nullptr) attach(*queue, *static_cast<CompletionChannel*>(channel));
  *free = queue.get();
  return queue.release();
} catch (std::bad_alloc const&) {
  fail(ENOMEM);
  return nullptr;
}

int destroy_cq(ibv_cq* cq) noexcept {
  auto* const queue = static_cast<CompletionQueue*>(cq);
  auto& context = Context::of(cq->context);
  if (!context.is_ours()) return 0;
  {
    std::lock_guard const guard{context.control};
    if (queue->users != 0)
      return fail(EBUSY, "%u queue pairs still use the completion queue", queue->users);
    if (queue->events != nullptr) detach(*queue);
    forget_events(*queue);
    context.completion_queues[queue->index] = nullptr;  // no event of it from here on
  }
  await_acknowledged(*queue, queue->comp_events_completed, queue->events_reported);
  await_acknowledged(*queue, queue->async_events_completed, queue->async_reported);
  std::lock_guard const guard{context.control};
  context.give_back_ring(queue->ring_offset,
                         (queue->mask + std::size_t{1}) * sizeof(SharedCompletion));
  ::pthread_cond_destroy(&queue->cond);
  ::pthread_mutex_destroy(&queue->mutex);
  delete queue;
  return 0;
}

}  // namespace lend::soft
