// SPDX-License-Identifier: MIT OR Apache-2.0
// Finding the event that a token tells of, and telling others. Any thread.
#include "async_events.hpp"

#include "context.hpp"
#include "queue_pair.hpp"
#include "receive_pool.hpp"

#include <mutex>

namespace lend::soft {
namespace {

// What a queue pair may tell. A corrupt peer sets any bit, and others would name another object.
constexpr std::uint32_t of_queue_pairs = bit_of(IBV_EVENT_QP_FATAL) | bit_of(IBV_EVENT_QP_REQ_ERR) |
                                         bit_of(IBV_EVENT_QP_ACCESS_ERR) |
                                         bit_of(IBV_EVENT_COMM_EST) | bit_of(IBV_EVENT_SQ_DRAINED) |
                                         bit_of(IBV_EVENT_QP_LAST_WQE_REACHED);

/// The next event of a queue pair, marked as told.
bool take_event(QueuePair& qp, ibv_async_event& event) noexcept {
  auto& shared = *qp.shared;
  RobustGuard const guard{shared.rx, qp.owner().claimant};
  auto const bits = shared.events.get();
  auto const untold = bits & of_queue_pairs;
  if (untold == 0) return false;
  shared.events.set(bits & ~(untold & -untold));
  ++qp.events_reported;
  event.element.qp = &qp;
  event.event_type = static_cast<ibv_event_type>(__builtin_ctz(untold));
  return true;
}

bool take_event(CompletionQueue& queue, ibv_async_event& event) noexcept {
  RobustGuard const guard{queue.shared->lock, Context::of(queue.context).claimant};
  if (queue.shared->overrun.get() != event_untold) return false;
  queue.shared->overrun.set(event_told);
  ++queue.async_reported;
  event.element.cq = &queue;
  event.event_type = IBV_EVENT_CQ_ERR;
  return true;
}

bool take_event(ReceivePool& pool, ibv_async_event& event) noexcept {
  RobustGuard const guard{pool.shared->lock, Context::of(pool.context).claimant};
  if (pool.shared->limit_reached.get() != event_untold) return false;
  pool.shared->limit_reached.set(event_told);
  ++pool.events_reported;
  event.element.srq = &pool;
  event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
  return true;
}

bool find_event(Context& context, ibv_async_event& event) noexcept {
  std::lock_guard const guard{context.control};  // nothing is made or destroyed meanwhile
  for (auto& entry : context.queue_pairs)
    if (auto* const qp = entry.load(std::memory_order_relaxed))
      if (take_event(*qp, event)) return true;
  for (auto* const queue : context.completion_queues)
    if (queue != nullptr && take_event(*queue, event)) return true;
  for (auto* const pool : context.receive_pools)
    if (pool != nullptr && take_event(*pool, event)) return true;
  return false;
}

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& count) noexcept {
  ::pthread_mutex_lock(&mutex);
  ++count;
  ::pthread_cond_signal(&cond);
  ::pthread_mutex_unlock(&mutex);
}

}  // namespace

void raise_events(Segment& segment, SharedQueuePair& shared, std::uint32_t bits,
                  Wakers& wakers) noexcept {
  auto const known = shared.events.get();
  auto const fresh = bits & ~known & ~(was_established | is_breaking);
  for (auto left = fresh; left != 0; left &= left - 1) (void)wakers.wake(segment.header.async);
  shared.events.set(known | bits);
}

void tell_overrun(CompletionQueue& queue) noexcept {
  auto& context = Context::of(queue.context);
  RobustGuard const guard{queue.shared->lock, context.claimant};
  if (queue.shared->overrun.get() != 0) return;
  (void)context.async.ring();
  queue.shared->overrun.set(event_untold);
}

int get_async_event(ibv_context* opened, ibv_async_event* event) noexcept {
  auto& context = Context::of(opened);
  if (context.check_ours() != 0) return -1;
  // A token without an event is of somebody who died, or of an object that is gone.
  while (context.async.take())
    if (find_event(context, *event)) return 0;
  return -1;
}

void ack_async_event(ibv_async_event* event) noexcept {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      auto& cq = *event->element.cq;
      return acknowledge(cq.mutex, cq.cond, cq.async_events_completed);
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      auto& srq = *event->element.srq;
      return acknowledge(srq.mutex, srq.cond, srq.events_completed);
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      auto& qp = *event->element.qp;
      return acknowledge(qp.mutex, qp.cond, qp.events_completed);
    }
    default: return;  // of the port or device: there are none, and nobody waits for them
  }
}

void forget_events(QueuePair& qp) noexcept {
  RobustGuard const guard{qp.shared->rx, qp.owner().claimant};
  auto const untold = qp.shared->events.get() & of_queue_pairs;
  for (auto left = untold; left != 0; left &= left - 1) qp.owner().async.take_back();
  qp.shared->events.set(0);
}

void forget_events(CompletionQueue& queue) noexcept {
  auto& context = Context::of(queue.context);
  RobustGuard const guard{queue.shared->lock, context.claimant};
  if (queue.shared->overrun.get() == event_untold) context.async.take_back();
  queue.shared->overrun.set(event_told);
}

void forget_events(ReceivePool& pool) noexcept {
  auto& context = Context::of(pool.context);
  RobustGuard const guard{pool.shared->lock, context.claimant};
  if (pool.shared->limit_reached.get() == event_untold) context.async.take_back();
  pool.shared->limit_reached.set(event_told);
}

}  // namespace lend::soft
