// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the event of a token, raises the one of an overrun, and forgets those of an object that
// goes. Any thread.
#include <soft/objects/async_events.hpp>

#include <soft/objects/context.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/platform/clock.hpp>

#include <fcntl.h>

#include <cerrno>
#include <mutex>

namespace lend::soft {
namespace {

// What a queue pair may tell. A corrupt peer sets any bit, and others would name another object.
constexpr std::uint32_t of_queue_pairs = bit_of(IBV_EVENT_QP_FATAL) | bit_of(IBV_EVENT_QP_REQ_ERR) |
                                         bit_of(IBV_EVENT_QP_ACCESS_ERR) |
                                         bit_of(IBV_EVENT_COMM_EST) | bit_of(IBV_EVENT_SQ_DRAINED) |
                                         bit_of(IBV_EVENT_QP_LAST_WQE_REACHED);

/// What became of looking for an event of one object, or of all.
enum class Found : std::uint8_t { one, none, held };

/// The next event of a queue pair, marked as told.
Found take_event(QueuePair& qp, ibv_async_event& event) noexcept {
  auto& shared = *qp.shared;
  if (!shared.rx.lock_in_time(qp.owner().claimant)) return Found::held;
  RobustGuard const guard{shared.rx, std::adopt_lock};
  auto const bits = shared.events.get();
  auto const untold = bits & of_queue_pairs;
  if (untold == 0) return Found::none;
  shared.events.set(bits & ~(untold & -untold));
  ++qp.events_reported;
  event.element.qp = &qp;
  event.event_type = static_cast<ibv_event_type>(__builtin_ctz(untold));
  return Found::one;
}

Found take_event(CompletionQueue& queue, ibv_async_event& event) noexcept {
  auto& lock = queue.shared->lock;
  if (!lock.lock_in_time(Context::of(queue.context).claimant)) return Found::held;
  RobustGuard const guard{lock, std::adopt_lock};
  if (queue.shared->overrun.get() != event_untold) return Found::none;
  queue.shared->overrun.set(event_told);
  ++queue.async_reported;
  event.element.cq = &queue;
  event.event_type = IBV_EVENT_CQ_ERR;
  return Found::one;
}

Found take_event(ReceivePool& pool, ibv_async_event& event) noexcept {
  auto& lock = pool.shared->lock;
  if (!lock.lock_in_time(Context::of(pool.context).claimant)) return Found::held;
  RobustGuard const guard{lock, std::adopt_lock};
  if (pool.shared->limit_reached.get() != event_untold) return Found::none;
  pool.shared->limit_reached.set(event_told);
  ++pool.events_reported;
  event.element.srq = &pool;
  event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
  return Found::one;
}

/// Of the port: the last is the state that it has now.
Found take_event(Context& context, ibv_async_event& event) noexcept {
  constexpr auto both = bit_of(IBV_EVENT_PORT_ACTIVE) | bit_of(IBV_EVENT_PORT_ERR);
  // Acquire pairs with the release in tell_port().
  auto const untold = context.port_events.load(std::memory_order_acquire);
  if (untold == 0) return Found::none;
  bool const is_down = context.port_is_down.load(std::memory_order_relaxed);
  auto const last = is_down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE;
  auto const bits = untold == both ? both & ~bit_of(last) : untold;
  context.port_events.fetch_and(~bits, std::memory_order_relaxed);
  event.element.port_num = 1;
  event.event_type = static_cast<ibv_event_type>(__builtin_ctz(bits));
  return Found::one;
}

Found find_event(Context& context, ibv_async_event& event) noexcept {
  std::lock_guard const guard{context.control};  // nothing is made or destroyed meanwhile
  auto all = take_event(context, event);
  if (all == Found::one) return all;
  auto const is_found = [&](auto* object) {
    if (object == nullptr) return false;
    auto const found = take_event(*object, event);
    if (found != Found::none) all = found;
    return found == Found::one;
  };
  for (auto& entry : context.queue_pairs)
    if (is_found(entry.load(std::memory_order_relaxed))) return Found::one;
  for (auto* const queue : context.completion_queues)
    if (is_found(queue)) return Found::one;
  for (auto* const pool : context.receive_pools)
    if (is_found(pool)) return Found::one;
  return all;
}

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& count) noexcept {
  ::pthread_mutex_lock(&mutex);
  ++count;
  ::pthread_cond_signal(&cond);
  ::pthread_mutex_unlock(&mutex);
}

}  // namespace

void tell_overrun(CompletionQueue& queue) noexcept {
  auto& context = Context::of(queue.context);
  auto& lock = queue.shared->lock;
  // Where a stopped peer holds it, without: at worst there is a token for nothing.
  bool const is_locked = lock.lock_in_time(context.claimant);
  if (queue.shared->overrun.get() == 0) {
    (void)context.async.ring();
    queue.shared->overrun.set(event_untold);
  }
  if (is_locked) lock.unlock();
}

void tell_port(Context& context, bool is_up) noexcept {
  context.port_is_down.store(!is_up, std::memory_order_relaxed);
  auto const event = is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  // Release pairs with the acquire in take_event(). At worst there is a token for nothing.
  context.port_events.fetch_or(bit_of(event), std::memory_order_release);
  (void)context.async.ring();
}

int get_async_event(ibv_context* opened, ibv_async_event* event) noexcept {
  auto& context = Context::of(opened);
  if (context.check_ours() != 0) return -1;
  // A token without an event is of somebody who died, or of an object that is gone.
  while (context.async.take()) {
    auto const file_flags = ::fcntl(context.async.fd(), F_GETFL);
    bool const may_wait = (file_flags & O_NONBLOCK) == 0;
    auto const end = now() + holder_patience;
    auto found = find_event(context, *event);
    // The token may be of an object whose lock a peer holds while it copies a long message.
    while (found == Found::held && may_wait && now() < end) {
      rest_between_attempts();
      found = find_event(context, *event);
    }
    if (found == Found::one) return 0;
    if (found == Found::none) continue;
    (void)context.async.ring();
    errno = may_wait ? EBUSY : EAGAIN;
    break;
  }
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
    default: return;  // of the port: none is awaited
  }
}

void forget_events(QueuePair& qp) noexcept {
  auto const untold = qp.shared->events.get() & of_queue_pairs;
  for (auto left = untold; left != 0; left &= left - 1) qp.owner().async.take_back();
  qp.shared->events.set(0);
}

void forget_events(CompletionQueue& queue) noexcept {
  auto& context = Context::of(queue.context);
  if (queue.shared->overrun.get() == event_untold) context.async.take_back();
  queue.shared->overrun.set(event_told);
}

void forget_events(ReceivePool& pool) noexcept {
  auto& context = Context::of(pool.context);
  if (pool.shared->limit_reached.get() == event_untold) context.async.take_back();
  pool.shared->limit_reached.set(event_told);
}

}  // namespace lend::soft
