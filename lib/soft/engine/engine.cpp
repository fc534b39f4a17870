// SPDX-License-Identifier: MIT OR Apache-2.0
// The requester: our side of one work request, then the responder, its timers, and how it ends.
#include <soft/engine/engine.hpp>

#include <soft/engine/datagram.hpp>
#include <soft/engine/faults.hpp>
#include <soft/engine/responder.hpp>
#include <soft/engine/retry_budgets.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/engine/windows.hpp>
#include <soft/objects/async_events.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/platform/clock.hpp>
#include <soft/segment/bounce.hpp>
#include <soft/segment/notify.hpp>
#include <soft/segment/pool_ring.hpp>
#include <soft/segment/receive_ring.hpp>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace lend::soft {
namespace {

/// Whether the lock that the work waits for may be free now. Or the peer is dead, whatever its lock
/// says.
bool may_go_on(QueuePair& qp) noexcept {
  auto& stall = qp.stall;
  return (qp.peer != nullptr && qp.peer->is_dead()) ||
         may_come_free(qp.owner(), *stall.lock, stall.asked_at);
}

/// Does the work, or says why it must wait. For one caller; its stack frame keeps the compiler from
/// inlining it by itself.
[[gnu::always_inline]] inline Outcome execute(QueuePair& qp, Work const& work) noexcept {
  if (work.fault != nullptr) [[unlikely]]
    if (auto const met = meet_fault(qp, work)) return *met;
  if (qp.qp_type == IBV_QPT_UD) return execute_datagram(qp, work);
  if (is_of_window(work.opcode)) [[unlikely]]
    return execute_window_work(qp, work);
  // Before its pieces: their memory may be gone since.
  if (qp.offered != 0 && qp.shared->offer.was_taken(qp.offered)) [[unlikely]]
    return ended(IBV_WC_SUCCESS, Fault::none, qp.offered_length);
  bool const brings = brings_bytes(work);
  Extents ours;
  if (!gather(qp, work, brings, ours)) return ended(IBV_WC_LOC_PROT_ERR, Fault::local_key);
  if (ours.total > message_bytes_max) return ended(IBV_WC_LOC_LEN_ERR, Fault::message_too_long);
  if (brings && qp.attributes.max_rd_atomic == 0)
    return ended(IBV_WC_LOC_QP_OP_ERR, Fault::no_reads_allowed);
  if (qp.peer->is_dead())
    return qp.qp_type == IBV_QPT_RC
               ? ended(IBV_WC_RETRY_EXC_ERR, Fault::peer_is_dead)
               : ended(IBV_WC_SUCCESS, Fault::none, static_cast<std::uint32_t>(ours.total));
  auto& rx = qp.target->rx;
  if (!rx.lock_in_time(qp.owner().claimant)) return held_back(qp, rx, ours.total);
  RobustGuard const guard{rx, std::adopt_lock};
  return respond(qp, work, ours, *qp.peer, *qp.target);
}

/// By ibv_wr_opcode.
constexpr ibv_wc_opcode completed[] = {
    IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,      IBV_WC_SEND,    IBV_WC_RDMA_READ,
    IBV_WC_COMP_SWAP,  IBV_WC_FETCH_ADD,  IBV_WC_LOCAL_INV, IBV_WC_BIND_MW, IBV_WC_SEND};
static_assert(std::size(completed) == IBV_WR_SEND_WITH_INV + 1);

/// Done, well or badly.
void end(QueuePair& qp, Work const& work, ibv_wc_status status, Fault fault,
         std::uint32_t length) noexcept {
  if (status == IBV_WC_SUCCESS && !work.is_signaled()) return;
  auto const said = status == IBV_WC_SUCCESS ? length : static_cast<std::uint32_t>(fault);
  auto const fits =
      push_local(qp.sends(), {work.id, status, completed[work.opcode], said, work.position, &qp});
  if (status != IBV_WC_SUCCESS || !fits) break_sends(qp, fits);
}

std::uint64_t budget_of(QueuePair const& qp, Stall::Why why, std::uint8_t rnr_timer) noexcept {
  auto const& given = qp.attributes;
  if (why == Stall::Why::no_room || why == Stall::Why::left_to_receiver) return for_ever;
  if (why == Stall::Why::receiver_not_ready) return receiver_budget(given.rnr_retry, rnr_timer);
  if (why == Stall::Why::lock_is_held && qp.qp_type != IBV_QPT_RC) return lock_budget_min;
  auto const budget = silence_budget(given.timeout, given.retry_cnt);
  return why == Stall::Why::lock_is_held ? std::max(budget, lock_budget_min) : budget;
}

Stall::Why why_of(Outcome::Kind kind) noexcept {
  switch (kind) {
    case Outcome::Kind::receiver_not_ready: return Stall::Why::receiver_not_ready;
    case Outcome::Kind::lock_is_held: return Stall::Why::lock_is_held;
    case Outcome::Kind::no_room: return Stall::Why::no_room;
    case Outcome::Kind::left_to_receiver: return Stall::Why::left_to_receiver;
    default: return Stall::Why::peer_is_silent;
  }
}

/// Starts the budget of a new kind of stall. True when there is no more to wait for.
bool has_run_out(QueuePair& qp, Outcome const& outcome) noexcept {
  if (outcome.kind() == Outcome::Kind::held_up) return false;
  auto const why = why_of(outcome.kind());
  if (qp.stall.why != why) {
    auto const budget = budget_of(qp, why, outcome.rnr_timer());
    qp.stall.why = why;
    qp.stall.deadline = budget == for_ever ? 0 : now() + budget;
    if (budget == 0) return true;
  }
  return qp.stall.deadline != 0 && now() >= qp.stall.deadline;
}

/// The work is over, but it is offered to its receiver. False: who just takes it, and holds rx, for
/// which the next try waits, as long as for any lock.
[[gnu::noinline]] bool end_offer(QueuePair& qp, Outcome& outcome) noexcept {
  auto const withdrawn = qp.shared->offer.withdraw(qp.offered);
  if (withdrawn == Withdrawn::is_being_taken && outcome.kind() == Outcome::Kind::receiver_not_ready)
    return false;
  if (withdrawn == Withdrawn::was_taken)
    outcome = ended(IBV_WC_SUCCESS, Fault::none, qp.offered_length);
  qp.offered = 0;
  return true;
}

}  // namespace

void break_sends(QueuePair& qp, bool is_told) noexcept {
  if (!is_told) tell_overrun(qp.sends());
  if (is_told && qp.qp_type != IBV_QPT_RC) return enter_send_error(qp);
  enter_error(qp);
}

bool try_once(QueuePair& qp, Work const& work) noexcept {
  auto outcome = execute(qp, work);
  if (outcome.kind() != Outcome::Kind::done && !has_run_out(qp, outcome)) return false;
  if (qp.offered != 0 && !end_offer(qp, outcome)) [[unlikely]]
    return false;
  qp.stall.why = Stall::Why::none;
  end(qp, work, outcome.status(), outcome.fault(), outcome.length());
  return true;
}

void begin_waiting(QueuePair& qp, std::uint8_t rnr_timer) noexcept {
  // Should its time be over at once, the next retry finds that.
  (void)has_run_out(qp, {Outcome::Kind::receiver_not_ready, rnr_timer, Fault::receiver_not_ready,
                         IBV_WC_RNR_RETRY_EXC_ERR, 0});
}

Outcome held_back(QueuePair& qp, RobustLock const& lock, std::uint64_t length) noexcept {
  qp.stall.lock = &lock;
  bool const is_told = qp.qp_type == IBV_QPT_RC;
  return {Outcome::Kind::lock_is_held, 0, is_told ? Fault::peer_is_silent : Fault::none,
          is_told ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS, static_cast<std::uint32_t>(length)};
}

void keep_claim(QueuePair& qp, SharedQueuePair& target) noexcept {
  if (target.pool.get() != 0)
    qp.stall.claim = target.claim.get();
  else
    target.claim.set(0);
}

bool is_worth_another_try(QueuePair& qp, Work const& work) noexcept {
  if (qp.stall.why == Stall::Why::fault) return false;
  if (qp.stall.why == Stall::Why::lock_is_held) return may_go_on(qp);
  auto const& offer = qp.shared->offer;
  if (qp.offered != 0 && (offer.was_taken(qp.offered) || offer.was_refused(qp.offered)))
    return true;
  if (qp.peer->is_dead()) return true;
  auto const& target = *qp.target;
  auto const state = target.state.load(std::memory_order_relaxed);
  // A peer that was not ready and now is silent has another budget.
  if (state != IBV_QPS_RTR && state != IBV_QPS_RTS)
    return qp.stall.why != Stall::Why::peer_is_silent;
  if (qp.stall.why == Stall::Why::left_to_receiver) {
    // Deregistered here, or its receiver was reset meanwhile and knows of no message.
    auto* const buffers = bounce_of(qp.peer->segment(), target);
    return qp.offered == 0 || buffers == nullptr || buffers->unexpected.ticket.get() != qp.offered;
  }
  if (qp.stall.why == Stall::Why::no_room)
    return may_have_room(target, static_cast<std::uint32_t>(length_of(work)));
  if (qp.stall.why == Stall::Why::peer_is_silent || !takes_receive(work)) return true;
  if (target.pool.get() != 0) {
    auto const pool = pool_ring_of(qp.peer->segment(), target);
    return pool.order == nullptr ||
           pool.waiting_at(pool.pool->tail.load(std::memory_order_relaxed)) != 0;
  }
  auto const ring = receive_ring_of(qp.peer->segment(), target);
  if (ring.base == nullptr) return true;
  auto const position = target.receive_tail.load(std::memory_order_relaxed);
  return ring.at(position).sequence.load(std::memory_order_relaxed) == position + 1;
}

}  // namespace lend::soft
