// SPDX-License-Identifier: MIT OR Apache-2.0
// The requester: our side of one work request, then the responder.
#include "engine.hpp"

#include "datagram.hpp"
#include "pool_ring.hpp"
#include "receive_ring.hpp"
#include "responder.hpp"

namespace lend::soft {

Outcome execute(QueuePair& qp, Work const& work) noexcept {
  if (qp.qp_type == IBV_QPT_UD) return execute_datagram(qp, work);
  bool const brings = brings_bytes(work);
  Stretches ours;
  if (!gather(qp, work, brings, ours)) return ended(IBV_WC_LOC_PROT_ERR, Fault::local_key);
  if (ours.total > message_bytes_max) return ended(IBV_WC_LOC_LEN_ERR, Fault::message_too_long);
  if (brings && qp.attributes.max_rd_atomic == 0)
    return ended(IBV_WC_LOC_QP_OP_ERR, Fault::no_reads_allowed);
  if (qp.peer->is_dead())
    return qp.qp_type == IBV_QPT_RC
               ? ended(IBV_WC_RETRY_EXC_ERR, Fault::peer_is_dead)
               : ended(IBV_WC_SUCCESS, Fault::none, static_cast<std::uint32_t>(ours.total));
  RobustGuard const guard{qp.target->rx, qp.owner().claimant};
  return respond(qp, work, ours, *qp.peer, *qp.target);
}

bool is_worth_another_try(QueuePair const& qp, Work const& work) noexcept {
  if (qp.stall.why == Stall::Why::fault) return false;
  if (qp.peer->is_dead()) return true;
  auto const& target = *qp.target;
  auto const state = target.state.load(std::memory_order_relaxed);
  // A peer that was not ready and now is silent has another budget.
  if (state != IBV_QPS_RTR && state != IBV_QPS_RTS)
    return qp.stall.why != Stall::Why::peer_is_silent;
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
