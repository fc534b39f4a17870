// SPDX-License-Identifier: MIT OR Apache-2.0
// Making and destroying completion queues.
#include <soft/objects/completion_queue.hpp>

#include <soft/objects/async_events.hpp>
#include <soft/objects/completion_channel.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/notify.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>

namespace lend::soft {

ibv_cq* make_cq(ibv_context* opened, int entries, void* cq_context, ibv_comp_channel* channel,
                int vector, bool is_timed) noexcept try {
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
  queue->is_timed = is_timed;
  if (is_timed) queue->local_times = std::make_unique_for_overwrite<std::uint64_t[]>(capacity);

  std::lock_guard const guard{context.control};
  if (channel != nullptr) make_room(*static_cast<CompletionChannel*>(channel));
  // Not one whose lock a process that comes too late still holds.
  auto const free = std::find_if(
      context.completion_queues.begin(), context.completion_queues.end(),
      [&](CompletionQueue*& entry) {
        auto const index = &entry - context.completion_queues.data();
        return entry == nullptr &&
               context.segment.completion_queues[index].lock.lock_in_time(context.claimant);
      });
  if (free == context.completion_queues.end()) {
    fail(ENOMEM, "the soft device has at most %u completion queues", completion_queues_max);
    return nullptr;
  }
  queue->index = static_cast<std::uint32_t>(free - context.completion_queues.begin());
  auto& shared = context.segment.completion_queues[queue->index];
  // The lock's word stays as it is.
  std::unique_lock producers{shared.lock, std::adopt_lock};
  queue->ring_offset = context.take_ring(capacity * stride_of(*queue));
  if (queue->ring_offset == 0) return nullptr;
  queue->context = opened;
  queue->cq_context = cq_context;
  queue->handle = queue->index;
  queue->cqe = static_cast<int>(capacity);
  queue->mask = capacity - 1;
  queue->shared = &shared;
  queue->ring = reinterpret_cast<SharedCompletion*>(
      ring_at(context.segment, queue->ring_offset, capacity, stride_of(*queue)));
  shared.overrun.set(0);
  shared.notify.set(is_timed ? notify_timed : 0);
  shared.wake.inode.set(0);
  shared.tail.set(0);
  shared.intended_tail.set(0);
  shared.head_seen.set(0);
  shared.head.store(0, std::memory_order_relaxed);
  shared.ring_offset.set(queue->ring_offset);
  shared.ring_mask.set(queue->mask);
  producers.unlock();
  ::pthread_mutex_init(&queue->mutex, nullptr);
  ::pthread_cond_init(&queue->cond, nullptr);
  // Whole before it can be found: a corrupt peer may announce it at once.
  if (channel != nullptr) attach(*queue, *static_cast<CompletionChannel*>(channel));
  *free = queue.get();
  return queue.release();
} catch (std::bad_alloc const&) {
  fail(ENOMEM);
  return nullptr;
}

ibv_cq* create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                  int vector) noexcept {
  return make_cq(context, entries, cq_context, channel, vector, false);
}

int destroy_cq(ibv_cq* cq) noexcept {
  auto* const queue = static_cast<CompletionQueue*>(cq);
  auto& context = Context::of(cq->context);
  if (!context.is_ours()) return 0;
  int in_use = 0;
  auto const error = wait_for_holders(context, [&]() -> RobustLock const* {
    std::lock_guard const guard{context.control};
    if (queue->users != 0) {
      in_use = fail(EBUSY, "%u queue pairs still use the completion queue", queue->users);
      return nullptr;
    }
    std::unique_lock<std::mutex> sleepers;
    if (queue->events != nullptr) sleepers = std::unique_lock{queue->events->mutex};
    auto& lock = queue->shared->lock;
    if (!lock.lock_in_time(context.claimant)) return &lock;
    RobustGuard const producers{lock, std::adopt_lock};
    if (queue->events != nullptr) detach(*queue);
    forget_events(*queue);
    context.completion_queues[queue->index] = nullptr;  // no event of it from here on
    return nullptr;
  });
  if (error != 0 || in_use != 0) return EBUSY;
  await_acknowledged(*queue, queue->comp_events_completed, queue->events_reported);
  await_acknowledged(*queue, queue->async_events_completed, queue->async_reported);
  std::lock_guard const guard{context.control};
  context.give_back_ring(queue->ring_offset, (queue->mask + std::size_t{1}) * stride_of(*queue));
  ::pthread_cond_destroy(&queue->cond);
  ::pthread_mutex_destroy(&queue->mutex);
  delete queue;
  return 0;
}

bool push_other_local(CompletionQueue& queue, LocalCompletion end) noexcept {
  auto const is_solicited = end.status != IBV_WC_SUCCESS;
  bool is_armed = false;
  {
    std::lock_guard const guard{queue.lock};
    if (queue.local_tail - queue.local_head > queue.mask) return false;
    queue.local[queue.local_tail & queue.mask] = end;
    if (queue.shared->notify.get() != 0) {
      if (queue.is_timed) queue.local_times[queue.local_tail & queue.mask] = now();
      is_armed = is_due(queue.shared->notify, is_solicited);
    }
    ++queue.local_tail;
  }
  if (is_armed) notify_owner(queue, is_solicited);
  return true;
}

bool has_unpolled(CompletionQueue const& cq, bool solicited_only) noexcept {
  if (!solicited_only && (cq.local_head != cq.local_tail || first_published(cq) != nullptr))
    return true;
  for (auto* qp = cq.flushing_sends; qp != nullptr; qp = qp->next_flushing_send)
    if (qp->pending_head.load() != qp->pending_tail.load()) return true;
  for (auto* qp = cq.flushing_receives; qp != nullptr; qp = qp->next_flushing_receive)
    if (qp->flushing_claim != 0 || qp->receive_done.load() != qp->receive_posted.load())
      return true;
  return false;
}

}  // namespace lend::soft
