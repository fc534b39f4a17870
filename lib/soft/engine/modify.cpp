// SPDX-License-Identifier: MIT OR Apache-2.0
// Moving queue pairs between states as the program asks.
#include <soft/engine/modify.hpp>

#include <soft/engine/datagram.hpp>
#include <soft/engine/post.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/objects/address_handle.hpp>
#include <soft/objects/async_events.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/objects/transitions.hpp>
#include <soft/platform/reason.hpp>

#include <endian.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace lend::soft {
namespace {

void keep(QueuePair& qp, ibv_qp_attr const& given, int mask) noexcept {
  auto& kept = qp.attributes;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) kept.qp_access_flags = given.qp_access_flags;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) kept.pkey_index = given.pkey_index;
  if ((mask & IBV_QP_PORT) != 0) kept.port_num = given.port_num;
  if ((mask & IBV_QP_AV) != 0) kept.ah_attr = given.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) kept.path_mtu = given.path_mtu;
  if ((mask & IBV_QP_TIMEOUT) != 0) kept.timeout = given.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) kept.retry_cnt = given.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) kept.rnr_retry = given.rnr_retry;
  if ((mask & IBV_QP_RQ_PSN) != 0) kept.rq_psn = given.rq_psn;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) kept.max_rd_atomic = given.max_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) kept.min_rnr_timer = given.min_rnr_timer;
  if ((mask & IBV_QP_SQ_PSN) != 0) kept.sq_psn = given.sq_psn;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) kept.max_dest_rd_atomic = given.max_dest_rd_atomic;
  if ((mask & IBV_QP_DEST_QPN) != 0) kept.dest_qp_num = given.dest_qp_num;
  if ((mask & IBV_QP_QKEY) != 0) kept.qkey = given.qkey;
  if ((mask & IBV_QP_PATH_MIG_STATE) != 0) kept.path_mig_state = given.path_mig_state;
}

/// Shows peers what they must know, the state last. The caller holds rx.
void publish(QueuePair& qp, ibv_qp_state state) noexcept {
  auto& shared = *qp.shared;
  // A peer may just have broken the queue pair; that stands.
  if (state != IBV_QPS_INIT && shared.state.load(std::memory_order_relaxed) == IBV_QPS_ERR) return;
  shared.access.set(qp.attributes.qp_access_flags);
  shared.rnr_timer.set(qp.attributes.min_rnr_timer);
  shared.reads_max.set(qp.attributes.max_dest_rd_atomic);
  shared.receive_psn.set(qp.attributes.rq_psn);
  shared.key.set(qp.attributes.qkey);
  shared.remote_number.set(qp.attributes.dest_qp_num);
  shared.remote_instance.set(qp.peer != nullptr ? qp.peer->instance() : 0);
  // Release pairs with the responder's acquire.
  shared.state.store(state, std::memory_order_release);
}

void forget_peer(QueuePair& qp) noexcept {
  {
    std::lock_guard const posters{qp.receive_lock};
    forget_copier(qp);
  }
  qp.wake_pipes.let_go();
  qp.target = nullptr;
  qp.owner().peers.release(std::exchange(qp.peer, nullptr));
}

int find_peer(QueuePair& qp, std::uint32_t number) {
  auto& peers = qp.owner().peers;
  qp.peer = peers.acquire(number >> index_bits);
  if (qp.peer == nullptr) return errno;
  qp.target = &qp.peer->segment().queue_pairs[number & (queue_pairs_max - 1)];
  // Later nothing comes unnoticed for want of a descriptor.
  if (auto const error = admit_peer(qp); error != 0) return forget_peer(qp), error;
  auto const error = qp.wake_pipes.hold(qp.peer->wake_pipes(), qp.peer->segment(), *qp.target);
  if (error == 0) return 0;
  forget_peer(qp);
  return fail(error, "no descriptor to wake the peer by: %s", std::strerror(error));
}

/// In SQD, and what had started is not over. Who asks need not poll.
bool is_draining(QueuePair& qp) noexcept {
  if (qp.mode.load(std::memory_order_relaxed) != IBV_QPS_SQD) return false;
  retry_pending(qp);
  return qp.mode.load(std::memory_order_relaxed) == IBV_QPS_SQD &&
         qp.stall.why != Stall::Why::drained;
}

/// To SQD. A thread that asks for the event may sleep until it comes, and poll nothing.
int drain(QueuePair& qp, bool asks_for_event) noexcept {
  auto& context = qp.owner();
  if (asks_for_event) {
    // As if it had stalled, even if nothing is outstanding: the event waits while a sender is
    // stopped, and then there must be a thread that raises it.
    context.stalled.insert(qp.index);
    if (auto const error = context.timer_thread.sleeper_came(context); error != 0) {
      if (qp.stall.why == Stall::Why::none) context.stalled.erase(qp.index);
      return error;
    }
  }
  qp.attributes.en_sqd_async_notify = asks_for_event ? 1 : 0;
  qp.mode.store(IBV_QPS_SQD, std::memory_order_relaxed);
  qp.is_direct = false;
  hold_sends(qp);
  return 0;
}

/// 0, or errno with reason.
int check(QueuePair& qp, ibv_qp_state from, ibv_qp_state to, bool draining,
          ibv_qp_attr const& given, int mask) noexcept {
  if (auto const error = check_transition(from, to, given, mask, qp.qp_type); error != 0)
    return error;
  // Source: kernel drivers/infiniband/sw/rxe/rxe_qp.c, __qp_chk_state().
  if (draining && to != IBV_QPS_ERR && to != IBV_QPS_RESET)
    return fail(EINVAL,
                "the send queue is still draining: wait for IBV_EVENT_SQ_DRAINED, or until "
                "ibv_query_qp says so");
  if ((mask & IBV_QP_AV) != 0) return check_address(qp.owner(), given.ah_attr);
  return 0;
}

/// Null, or the lock that is held, and nothing has changed. `error` is 0, or says why not.
RobustLock const* modify(QueuePair& qp, ibv_qp_attr const& given, int mask, int& error) {
  if (qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR) enter_error(qp);
  bool const draining = is_draining(qp);
  auto const from = qp.mode.load(std::memory_order_relaxed);
  auto const to = (mask & IBV_QP_STATE) != 0 ? given.qp_state : from;
  error = check(qp, from, to, draining, given, mask);
  if (error != 0) return nullptr;
  if (to == IBV_QPS_ERR) return keep(qp, given, mask), enter_error(qp), nullptr;
  if (to == IBV_QPS_RESET) return enter_reset(qp, ResetFor::use);
  if (from == IBV_QPS_RTS && to == IBV_QPS_SQD) {
    error = drain(qp, (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && given.en_sqd_async_notify != 0);
    return nullptr;
  }
  bool const connects = to == IBV_QPS_RTR && qp.qp_type != IBV_QPT_UD;
  if (connects) error = find_peer(qp, given.dest_qp_num);
  if (error != 0) return nullptr;
  {
    auto& rx = qp.shared->rx;
    if (!rx.lock_in_time(qp.owner().claimant)) {
      if (connects) forget_peer(qp);
      return &rx;
    }
    RobustGuard const senders{rx, std::adopt_lock};
    if (from == IBV_QPS_SQE && to == IBV_QPS_RTS) error = leave_send_error(qp);
    if (error != 0) return nullptr;
    keep(qp, given, mask);
    // No thread has found rx free since the send queue drained: raised now, or never.
    if (from == IBV_QPS_SQD && to == IBV_QPS_RTS && std::exchange(qp.owes_drain, false))
      raise_events(qp.owner().segment, *qp.shared, bit_of(IBV_EVENT_SQ_DRAINED),
                   qp.owner().own_wake_pipes);
    // To peers SQD is RTS: only our sends are concerned.
    publish(qp, to == IBV_QPS_SQD ? IBV_QPS_RTS : to);
    // Release pairs with serve_waiting().
    qp.mode.store(to, std::memory_order_release);
  }
  if (from == IBV_QPS_SQD && to == IBV_QPS_RTS) resume_sends(qp);
  return nullptr;
}

}  // namespace
int modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) noexcept try {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  if (auto const error = qp.owner().check_ours(); error != 0) return error;
  int error = 0;
  auto const held = wait_for_holders(qp.owner(), [&] {
    std::lock_guard const guard{qp.send_lock};
    auto const* const lock = modify(qp, *attributes, mask, error);
    qp.state = qp.mode.load(std::memory_order_relaxed);
    return lock;
  });
  return held != 0 ? held : error;
} catch (std::bad_alloc const&) {
  return fail(ENOMEM);
}

int query_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int, ibv_qp_init_attr* made) noexcept {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  if (auto const error = qp.owner().check_ours(); error != 0) return error;
  std::lock_guard const guard{qp.send_lock};
  if (qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR) enter_error(qp);
  auto const draining = is_draining(qp);
  *attributes = qp.attributes;
  attributes->sq_draining = draining;
  attributes->qp_state = attributes->cur_qp_state = qp.state = qp.mode.load();
  attributes->cap = qp.made_with.cap;
  *made = qp.made_with;
  return 0;
}

}  // namespace lend::soft
