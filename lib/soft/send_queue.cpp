// SPDX-License-Identifier: MIT OR Apache-2.0
// Work that must wait, its timers, and how work ends. No thread: poll_cq and the next post retry.
#include "async_events.hpp"
#include "clock.hpp"
#include "engine.hpp"
#include "faults.hpp"
#include "notify.hpp"
#include "post.hpp"
#include "timers.hpp"

#include <cstring>
#include <iterator>
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

/// By ibv_wr_opcode.
constexpr std::uint8_t completed[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,
                                      IBV_WC_SEND,       IBV_WC_RDMA_READ,  IBV_WC_COMP_SWAP,
                                      IBV_WC_FETCH_ADD};
static_assert(std::size(completed) == IBV_WR_ATOMIC_FETCH_AND_ADD + 1);

/// What goes wrong on our side breaks only the sends of an unreliable queue pair, unless no
/// completion tells it. Source: kernel drivers/infiniband/core/verbs.c, qp_state_table (SQE);
/// InfiniBand Architecture Specification vol. 1, 10.3.1.
[[gnu::noinline]] void break_sends(QueuePair& qp, bool is_told) noexcept {
  if (!is_told) tell_overrun(qp.sends());
  if (is_told && qp.qp_type != IBV_QPT_RC) return enter_send_error(qp);
  enter_error(qp);
}

/// Publishes the end of a send. False: the queue is full and the completion is lost.
[[gnu::always_inline]] inline bool push_local(CompletionQueue& queue,
                                              LocalCompletion const& end) noexcept {
  auto const is_solicited = end.status != IBV_WC_SUCCESS;
  bool is_armed = false;
  {
    std::lock_guard const guard{queue.lock};
    if (queue.local_tail - queue.local_head > queue.mask) return false;
    queue.local[queue.local_tail++ & queue.mask] = end;
    // Arming takes this lock too: who arms later finds the completion when it polls.
    is_armed = is_due(queue.shared->notify, is_solicited);
  }
  if (is_armed) [[unlikely]]
    notify_owner(queue, is_solicited);
  return true;
}

/// Done, well or badly.
[[gnu::always_inline]] inline void end(QueuePair& qp, Work const& work, ibv_wc_status status,
                                       Fault fault, std::uint32_t length) noexcept {
  if (status == IBV_WC_SUCCESS && !work.is_signaled()) return;
  auto const fits = push_local(
      qp.sends(), {&qp, work.id, work.position, length, static_cast<std::uint32_t>(fault),
                   static_cast<std::uint8_t>(status), completed[work.opcode]});
  if (status != IBV_WC_SUCCESS || !fits) break_sends(qp, fits);
}

/// Starts the budget of a new kind of stall. True when there is no more to wait for.
bool has_run_out(QueuePair& qp, Outcome const& outcome) noexcept {
  if (outcome.kind == Outcome::Kind::held_up) return false;
  auto const why = outcome.kind == Outcome::Kind::receiver_not_ready
                       ? Stall::Why::receiver_not_ready
                       : Stall::Why::peer_is_silent;
  if (qp.stall.why != why) {
    auto const budget = why == Stall::Why::receiver_not_ready
                            ? receiver_budget(qp.attributes.rnr_retry, outcome.rnr_timer)
                            : silence_budget(qp.attributes.timeout, qp.attributes.retry_cnt);
    qp.stall.why = why;
    qp.stall.deadline = budget == for_ever ? 0 : now() + budget;
    if (budget == 0) return true;
  }
  return qp.stall.deadline != 0 && now() >= qp.stall.deadline;
}

/// True when the work is over, false when it waits.
[[gnu::always_inline]] inline bool try_once(QueuePair& qp, Work const& work) noexcept {
  auto const outcome = work.fault == nullptr ? execute(qp, work) : execute_with_fault(qp, work);
  if (outcome.kind != Outcome::Kind::done && !has_run_out(qp, outcome)) return false;
  qp.stall.why = Stall::Why::none;
  end(qp, work, outcome.status, outcome.fault, outcome.length);
  return true;
}

/// The head of what is pending is stalled: it waits if somebody will try again, be it a thread.
/// Without one who sleeps would sleep for ever, so the work ends as if its time were over.
void await_retry(QueuePair& qp) noexcept {
  auto& context = qp.owner();
  while (qp.stall.why != Stall::Why::none && context.retrier.work_stalled(context) != 0) {
    qp.stall.deadline = 1;  // long ago
    retry_pending(qp);
  }
}

/// Behind what waits, or to be flushed.
[[gnu::noinline]] void defer(QueuePair& qp, Work const& work) noexcept {
  append(qp, work);
  if (qp.is_flushing) return notify_owner(qp.sends(), true);
  if (qp.stall.why == Stall::Why::drained) return;
  qp.owner().stalled.insert(qp.index);
  await_retry(qp);
}

/// What is pending starts from its head on.
void start_pending(QueuePair& qp) noexcept {
  qp.owner().stalled.insert(qp.index);
  retry_pending(qp);
  await_retry(qp);
}

/// Each operation passes here once, in the order of posting.
void order_fault(QueuePair& qp, Work& work) noexcept {
  auto& faults = qp.owner().faults;
  work.fault = faults.are_planned() ? faults.next_operation() : nullptr;
}

/// The work is the first that waits. False when its fault broke the queue pair before it.
bool start(QueuePair& qp, Work const& work) noexcept {
  if (work.fault == nullptr) [[likely]]
    return true;
  strike(qp, *work.fault);
  return !qp.is_flushing;
}

}  // namespace

void submit(QueuePair& qp, Work& work) noexcept {
  order_fault(qp, work);
  if (!qp.is_flushing && qp.stall.why == Stall::Why::none && start(qp, work) && try_once(qp, work))
    return;
  defer(qp, work);
}

void adopt_pending(QueuePair& qp, std::uint32_t count) noexcept {
  auto const tail = qp.pending_tail.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) {
    order_fault(qp, qp.pending_at(tail + i).work);
    keep_fault(qp.pending_at(tail + i));
  }
  // Release pairs with the acquire in poll_cq, which flushes from here.
  qp.pending_tail.store(tail + count, std::memory_order_release);
  if (qp.is_flushing) return notify_owner(qp.sends(), true);
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
    if (!try_once(qp, work)) {
      qp.pending_head.store(head, std::memory_order_relaxed);
      return;
    }
    ++head;
    if (had_started && qp.mode.load(std::memory_order_relaxed) == IBV_QPS_SQD)
      return hold_sends(qp);
  }
  qp.stall.why = Stall::Why::none;
  qp.owner().stalled.erase(qp.index);
}

// Source: kernel drivers/infiniband/sw/rxe/rxe_comp.c and rdmavt/qp.c: drained when the work that
// was begun is complete, whatever is posted behind it.
void hold_sends(QueuePair& qp) noexcept {
  if (qp.stall.why != Stall::Why::none) return;  // its head had started
  qp.stall.why = Stall::Why::drained;
  auto& context = qp.owner();
  context.stalled.erase(qp.index);
  if (qp.attributes.en_sqd_async_notify == 0) return;
  RobustGuard const guard{qp.shared->rx, context.claimant};
  raise_events(context.segment, *qp.shared, bit_of(IBV_EVENT_SQ_DRAINED), context.own_wakers);
}

void resume_sends(QueuePair& qp) noexcept {
  qp.stall.why = Stall::Why::none;
  start_pending(qp);
}

void retry_stalled(Context& context) noexcept {
  if (!context.walk.try_lock()) return;
  context.stalled.for_each([&](std::uint32_t index) {
    auto* const qp = context.queue_pairs[index].load(std::memory_order_relaxed);
    if (qp == nullptr) return;
    std::unique_lock const send{qp->send_lock, std::try_to_lock};
    if (!send) return;
    // A peer broke it: then its work is flushed, whatever became of the peer since.
    if (qp->shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR) enter_error(*qp);
    retry_pending(*qp);
  });
  end_walk(context);
}

}  // namespace lend::soft
