// SPDX-License-Identifier: MIT OR Apache-2.0
// Work that must wait: retried by poll_cq, by the next post, or by the timer thread.
#include <soft/engine/awaited.hpp>
#include <soft/engine/engine.hpp>
#include <soft/engine/faults.hpp>
#include <soft/engine/post.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/objects/async_events.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/platform/clock.hpp>

#include <cstring>
#include <mutex>

namespace lend::soft {
namespace {

void keep_fault(PendingWork& pending) noexcept {
  if (pending.work.fault == nullptr) return;
  pending.fault = *pending.work.fault;
  pending.work.fault = &pending.fault;
}

void append(QueuePair& qp, Work const& work) noexcept {
  auto const tail = qp.pending_tail.load(std::memory_order_relaxed);
  auto& pending = qp.pending_at(tail);
  pending.work = work;
  keep_fault(pending);
  auto* const pieces = pending.pieces();
  pending.work.pieces = pieces;
  if (work.is_inline()) {
    // The caller may change the bytes once post_send returned.
    auto* const bytes = pending.inline_bytes(qp.made_with.cap.max_send_sge);
    std::uint32_t length = 0;
    for (std::uint32_t i = 0; i < work.piece_count; ++i) {
      if (work.pieces[i].length == 0) continue;
      std::memcpy(bytes + length, reinterpret_cast<void const*>(work.pieces[i].addr),
                  work.pieces[i].length);
      length += work.pieces[i].length;
    }
    pieces[0] = {reinterpret_cast<std::uint64_t>(bytes), length, 0};
    pending.work.piece_count = 1;
  } else if (work.piece_count > 0) {
    std::memcpy(pieces, work.pieces, work.piece_count * sizeof(ibv_sge));
  }
  // Release pairs with the acquire in poll_cq, which flushes from here.
  qp.pending_tail.store(tail + 1, std::memory_order_release);
}

/// The head of what is pending is stalled: it waits if a thread will retry it.
/// Without one who sleeps would sleep for ever, so the work ends as if its time were over.
void await_retry(QueuePair& qp) noexcept {
  auto& context = qp.owner();
  if (qp.stall.why == Stall::Why::lock_is_held) context.timer_thread.work_met_lock(context);
  // In SQD this may get as far as `drained`: what is behind that waits for RTS, not for time.
  while (qp.stall.why != Stall::Why::none && qp.stall.why != Stall::Why::drained &&
         context.timer_thread.work_stalled(context) != 0) {
    qp.stall.deadline = 1;  // long ago
    retry_pending(qp);
  }
}

/// By an event; later, where a stopped sender holds rx.
void tell_drained(QueuePair& qp) noexcept {
  auto& context = qp.owner();
  auto& rx = qp.shared->rx;
  qp.owes_drain = !rx.lock_in_time(context.claimant);
  if (qp.owes_drain) {
    context.stalled.insert(qp.index);
    (void)context.timer_thread.work_stalled(context);  // that thread exists: see drain()
    return;
  }
  RobustGuard const senders{rx, std::adopt_lock};
  raise_events(context.segment, *qp.shared, bit_of(IBV_EVENT_SQ_DRAINED), context.own_wake_pipes);
  context.stalled.erase(qp.index);
}

/// What is pending starts from its head on.
void start_pending(QueuePair& qp) noexcept {
  qp.owner().stalled.insert(qp.index);
  retry_pending(qp);
  await_retry(qp);
}

}  // namespace

void defer(QueuePair& qp, Work const& work) noexcept {
  bool const is_first = qp.pending_head.load(std::memory_order_relaxed) ==
                        qp.pending_tail.load(std::memory_order_relaxed);
  append(qp, work);
  if (qp.is_flushing) return notify_of_flush(qp.sends());
  if (qp.stall.why == Stall::Why::drained) return;
  qp.owner().stalled.insert(qp.index);
  // Else somebody looks after the head already: this does not disturb its rest.
  if (is_first) await_retry(qp);
}

void adopt_pending(QueuePair& qp, std::uint32_t count) noexcept {
  auto const tail = qp.pending_tail.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) {
    order_fault(qp, qp.pending_at(tail + i).work);
    keep_fault(qp.pending_at(tail + i));
  }
  // Release pairs with the acquire in poll_cq, which flushes from here.
  qp.pending_tail.store(tail + count, std::memory_order_release);
  if (qp.is_flushing) return notify_of_flush(qp.sends());
  if (qp.stall.why != Stall::Why::drained) start_pending(qp);
}

void retry_pending(QueuePair& qp) noexcept {
  if (qp.stall.why == Stall::Why::drained) return;
  auto head = qp.pending_head.load(std::memory_order_relaxed);
  while (!qp.is_flushing && head != qp.pending_tail.load(std::memory_order_relaxed)) {
    auto const& work = qp.pending_at(head).work;
    bool const had_started = qp.stall.why != Stall::Why::none;
    if (had_started && !is_worth_another_try(qp, work) &&
        (qp.stall.deadline == 0 || now() < qp.stall.deadline))
      return;
    if (!had_started && !start(qp, work)) break;
    // Counted before it ends: ending may hand the rest to poll_cq.
    qp.pending_head.store(head + 1, std::memory_order_relaxed);
    bool const waited_for_lock = qp.stall.why == Stall::Why::lock_is_held;
    if (!try_once(qp, work)) {
      qp.pending_head.store(head, std::memory_order_relaxed);
      if (qp.stall.why == Stall::Why::lock_is_held && !waited_for_lock)
        qp.owner().timer_thread.work_met_lock(qp.owner());
      return;
    }
    ++head;
    if (had_started) qp.stall.claim = 0;
    if (had_started && qp.mode.load(std::memory_order_relaxed) == IBV_QPS_SQD)
      return hold_sends(qp);
  }
  qp.stall.why = Stall::Why::none;
  // The last may have ended in ERR, while a peer holds rx.
  if (!qp.owes_flush) qp.owner().stalled.erase(qp.index);
}

// Source: kernel drivers/infiniband/sw/rxe/rxe_comp.c and rdmavt/qp.c: drained when the work that
// was begun is complete, whatever is posted behind it.
void hold_sends(QueuePair& qp) noexcept {
  if (qp.stall.why != Stall::Why::none) return;  // its head had started
  qp.stall.why = Stall::Why::drained;
  qp.owner().stalled.erase(qp.index);
  if (qp.attributes.en_sqd_async_notify != 0) tell_drained(qp);
}

void resume_sends(QueuePair& qp) noexcept {
  qp.stall.why = Stall::Why::none;
  start_pending(qp);
}

bool retry_stalled(Context& context, RetriedFor purpose) noexcept {
  if (!context.walk.try_lock()) return false;
  bool has_met_all = true;
  context.stalled.for_each([&](std::uint32_t index) {
    auto* const qp = context.queue_pairs[index].load(std::memory_order_acquire);
    if (qp == nullptr) return;
    std::unique_lock const send{qp->send_lock, std::try_to_lock};
    if (!send) {
      has_met_all = false;
      return;
    }
    // A peer broke it, or it waits to flush, whatever its shared state says now: then its work is
    // flushed, whatever became of the peer since.
    if (qp->owes_flush || qp->shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR)
      return enter_error(*qp);
    if (qp->owes_drain && may_come_free(context, qp->shared->rx, qp->stall.asked_at))
      tell_drained(*qp);
    retry_pending(*qp);
    if (purpose == RetriedFor::sleepers) await_receive(*qp);
  });
  end_walk(context);
  return has_met_all;
}

}  // namespace lend::soft
