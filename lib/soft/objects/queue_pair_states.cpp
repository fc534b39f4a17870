// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue pairs that break, or go back to RESET, and the look for those that peers broke.
#include <soft/objects/queue_pair_states.hpp>

#include <soft/objects/async_events.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/peers/contacts.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/bounce.hpp>

#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

namespace lend::soft {

namespace {

void flush_sends_of(QueuePair& qp) noexcept {
  if (qp.is_flushing) return;
  qp.stall.why = Stall::Why::none;
  if (qp.offered != 0) (void)qp.shared->offer.withdraw(std::exchange(qp.offered, 0));
  qp.is_flushing = true;
  qp.owner().stalled.erase(qp.index);
  auto& cq = qp.sends();
  std::lock_guard const guard{cq.lock};
  qp.next_flushing_send = cq.flushing_sends;
  cq.flushing_sends = &qp;
}

void flush_receives_of(QueuePair& qp) noexcept {
  auto& cq = qp.receives();
  std::lock_guard const guard{cq.lock};
  // All completions of this queue pair are published: they happen under rx, which we just held.
  qp.flush_after = shared_tail(cq);
  qp.next_flushing_receive = cq.flushing_receives;
  cq.flushing_receives = &qp;
}

template <QueuePair* QueuePair::*next>
void unlink(QueuePair*& list, QueuePair& qp) noexcept {
  for (auto** at = &list; *at != nullptr; at = &((*at)->*next))
    if (*at == &qp) {
      *at = qp.*next;
      return;
    }
}

/// Lets poll_cq flush the receives. Null, or the lock that is held: then nothing was done. The
/// caller holds send_lock and stored ERR.
RobustLock const* flush_receives(QueuePair& qp) noexcept {
  auto& context = qp.owner();
  auto& shared = *qp.shared;
  if (!shared.rx.lock_in_time(context.claimant)) return &shared.rx;
  RobustGuard const senders{shared.rx, std::adopt_lock};
  if (auto* const takers = lock_of_claim(qp)) {
    if (!takers->lock_in_time(context.claimant)) return takers;
    RobustGuard const guard{*takers, std::adopt_lock};
    qp.flushing_claim = take_own_claim(qp);
  }
  auto events = std::exchange(qp.owes_drain, false) ? bit_of(IBV_EVENT_SQ_DRAINED) : 0;
  // A peer that broke it has told.
  if (qp.srq != nullptr && (shared.events.get() & is_breaking) == 0)
    events |= bit_of(IBV_EVENT_QP_LAST_WQE_REACHED);
  raise_events(context.segment, shared, events, context.own_wake_pipes);
  flush_receives_of(qp);
  return nullptr;
}

/// The same, or leaves it to the next poll, or to the timer thread if all threads sleep: harmless
/// while a sender is stopped.
void try_to_flush_receives(QueuePair& qp) noexcept {
  auto& context = qp.owner();
  auto& stall = qp.stall;
  if (stall.lock != nullptr && !may_come_free(context, *stall.lock, stall.asked_at)) return;
  bool const has_claim = qp.srq != nullptr;
  stall.lock = flush_receives(qp);
  if (stall.lock != nullptr) {
    context.stalled.insert(qp.index);
    // Its program may sleep until the event of its last receive comes, and arm nothing.
    auto& timer = context.timer_thread;
    auto const error =
        qp.srq != nullptr ? timer.sleeper_came(context) : timer.work_stalled(context);
    // There is no thread for it: wakes a thread of the program, which cannot arm again, and polls.
    if (error != 0) notify_of_flush(qp.receives());
    return;
  }
  qp.owes_flush = false;
  context.stalled.erase(qp.index);
  // Who posts receives from now on sees ERR, and wakes for itself.
  { std::lock_guard const posters{qp.receive_lock}; }
  if (has_claim || qp.receive_done.load() != qp.receive_posted.load())
    notify_of_flush(qp.receives());
}

/// The caller walks.
void look_for_trouble(Context& context) noexcept {
  // Acquire pairs with the release of the peer: its mark is seen below.
  auto const trouble = context.segment.header.trouble.load(std::memory_order_acquire);
  for (auto& entry : context.queue_pairs) {
    auto* const qp = entry.load(std::memory_order_acquire);
    if (qp == nullptr) continue;
    if ((qp->shared->awaited.load(std::memory_order_relaxed) & awaited_by_copy) != 0) [[unlikely]] {
      std::lock_guard const posters{qp->receive_lock};
      context.serve(*qp);
    }
    if (!looks_broken(*qp->shared)) continue;
    std::lock_guard const send{qp->send_lock};
    // Another thread may have reset it meanwhile.
    if (looks_broken(*qp->shared)) enter_error(*qp);
  }
  context.trouble_seen.store(trouble, std::memory_order_relaxed);
}

}  // namespace

void enter_error(QueuePair& qp) noexcept {
  if (qp.mode.load(std::memory_order_relaxed) != IBV_QPS_ERR) {
    // Without rx, which a stopped sender may hold: it ends its present message, and the next
    // sender finds ERR.
    qp.shared->state.store(IBV_QPS_ERR, std::memory_order_release);
    qp.mode.store(IBV_QPS_ERR, std::memory_order_relaxed);
    qp.is_direct = false;
    flush_sends_of(qp);
    if (qp.pending_head.load() != qp.pending_tail.load()) notify_of_flush(qp.sends());
    qp.owes_flush = true;
    qp.stall.lock = nullptr;
  }
  if (qp.owes_flush) try_to_flush_receives(qp);
}

// Source: kernel drivers/infiniband/sw/rdmavt/qp.c, ib_rvt_state_ops, with C10-96 of the InfiniBand
// Architecture Specification vol. 1.
void enter_send_error(QueuePair& qp) noexcept {
  if (qp.is_flushing) return;
  // To peers it is RTS still.
  qp.mode.store(IBV_QPS_SQE, std::memory_order_relaxed);
  flush_sends_of(qp);
  if (qp.pending_head.load() != qp.pending_tail.load()) notify_of_flush(qp.sends());
}

int leave_send_error(QueuePair& qp) noexcept {
  auto& cq = qp.sends();
  std::lock_guard const guard{cq.lock};
  auto head = qp.pending_head.load(std::memory_order_relaxed);
  auto const tail = qp.pending_tail.load(std::memory_order_relaxed);
  auto const room = cq.mask + 1 - (cq.local_tail - cq.local_head);
  if (tail - head > room)
    return fail(ENOMEM, "%u flushed sends do not fit in the completion queue: poll it first",
                tail - head);
  for (; head != tail; ++head) {
    auto const& work = qp.pending_at(head).work;
    if (cq.is_timed) cq.local_times[cq.local_tail & cq.mask] = now();
    cq.local[cq.local_tail++ & cq.mask] = {work.id, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND,
                                           0,       work.position,       &qp};
  }
  qp.pending_head.store(tail, std::memory_order_relaxed);
  unlink<&QueuePair::next_flushing_send>(cq.flushing_sends, qp);
  qp.is_flushing = false;
  return 0;
}

void forget_copier(QueuePair& qp) noexcept {
  if (!std::exchange(qp.lacks_copier, false)) return;
  if (auto* const pool = qp.pool()) {
    std::lock_guard const guard{pool->lock};
    --pool->without_copier;
  }
}

RobustLock const* enter_reset(QueuePair& qp, ResetFor purpose) noexcept {
  auto& context = qp.owner();
  auto& shared = *qp.shared;
  std::lock_guard const posters{qp.receive_lock};
  // All locks first: where one is held nothing has changed.
  if (!shared.rx.lock_in_time(context.claimant)) return &shared.rx;
  RobustGuard const senders{shared.rx, std::adopt_lock};
  auto* const of_claim = lock_of_claim(qp);
  if (of_claim != nullptr && !of_claim->lock_in_time(context.claimant)) return of_claim;
  std::optional<RobustGuard> takers;
  if (of_claim != nullptr) takers.emplace(*of_claim, std::adopt_lock);
  auto& of_queue = qp.receives().shared->lock;
  if (!of_queue.lock_in_time(context.claimant)) return &of_queue;
  RobustGuard const producers{of_queue, std::adopt_lock};

  auto const posted = qp.receive_posted.load(std::memory_order_relaxed);
  shared.state.store(IBV_QPS_RESET, std::memory_order_release);
  auto const claim = of_claim != nullptr ? take_own_claim(qp) : 0;
  shared.claim.set(0);
  shared.remote_key.store(0, std::memory_order_relaxed);  // a killed sender's
  shared.remote_number.set(0);
  shared.remote_instance.set(0);
  shared.epoch.set(qp.epoch() + 1);
  shared.events.set(shared.events.get() & ~(was_established | is_breaking));
  if (purpose == ResetFor::destruction) forget_events(qp);
  shared.receive_tail.store(posted, std::memory_order_relaxed);
  shared.offer.forget();
  // Nor does a message of the connection before wait for its receive any more.
  shared.awaited.store(0, std::memory_order_relaxed);
  if (auto* const buffers = bounce_of(context.segment, shared))
    buffers->unexpected.ticket.set(Offer::no_ticket);
  qp.offered = 0;
  qp.mode.store(IBV_QPS_RESET, std::memory_order_relaxed);
  qp.stall = {};
  context.stalled.erase(qp.index);
  {
    auto& cq = qp.sends();
    std::lock_guard const guard{cq.lock};
    drop_sends_of(qp);
    unlink<&QueuePair::next_flushing_send>(cq.flushing_sends, qp);
    qp.pending_head.store(qp.pending_tail.load());
    qp.send_freed.store(qp.send_posted);
  }
  {
    auto& cq = qp.receives();
    std::lock_guard const guard{cq.lock};
    unlink<&QueuePair::next_flushing_receive>(cq.flushing_receives, qp);
    if (qp.srq != nullptr) {
      recycle_unpolled(qp);
      recycle_claim(qp, claim);
      recycle_claim(qp, std::exchange(qp.flushing_claim, 0));
    }
    drop_receives_of(qp);
    // A poller that takes a message of the old epoch stores the head under this lock.
    shared.eager_tail.set(0);
    shared.eager_head_seen.set(0);
    shared.eager_head.store(0, std::memory_order_relaxed);
    // Completions that were taken from the ring and not polled yet are of the old epoch.
    qp.receiver = receiver_name(qp.index, qp.epoch() + 1);
    qp.receive_done.store(posted);
  }
  qp.is_direct = qp.is_flushing = qp.owes_flush = qp.owes_drain = false;
  forget_copier(qp);
  qp.known.reset();
  qp.target = nullptr;
  qp.wake_pipes.let_go();
  if (qp.peer != nullptr) context.peers.release(qp.peer);
  qp.peer = nullptr;
  if (qp.contacts) qp.contacts->forget();
  qp.attributes = {};
  return nullptr;
}

void notice_trouble(Context& context) noexcept {
  // A thread that sleeps next does not poll: one must look, and none waits for a stalled walker.
  if (!context.walk.lock_or_leave()) return;
  look_for_trouble(context);
  end_walk(context);
}

void end_walk(Context& context) noexcept {
  while (!context.walk.unlock()) look_for_trouble(context);
}

}  // namespace lend::soft
