// SPDX-License-Identifier: MIT OR Apache-2.0
// Moving queue pairs between states.
#include "async_events.hpp"
#include "datagram.hpp"
#include "post.hpp"
#include "queue_pair.hpp"
#include "reason.hpp"
#include "receive_pool.hpp"
#include "transitions.hpp"

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

/// Shows peers what they must know, the state last.
void publish(QueuePair& qp, ibv_qp_state state) noexcept {
  auto& shared = *qp.shared;
  RobustGuard const guard{shared.rx, qp.owner().claimant};
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

void flush_sends_of(QueuePair& qp) noexcept {
  if (qp.is_flushing) return;
  qp.stall.why = Stall::Why::none;
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

int find_peer(QueuePair& qp, std::uint32_t number) {
  auto& peers = qp.owner().peers;
  qp.peer = peers.acquire(number >> index_bits);
  if (qp.peer == nullptr) return errno;
  qp.target = &qp.peer->segment().queue_pairs[number & (queue_pairs_max - 1)];
  // Later nothing comes unnoticed for want of a descriptor.
  auto const error = qp.wakers.hold(qp.peer->wakers(), qp.peer->segment(), *qp.target);
  if (error == 0) return 0;
  peers.release(std::exchange(qp.peer, nullptr));
  return fail(error, "no descriptor to wake the peer by: %s", std::strerror(error));
}

/// In SQD, and what had started is not over. Who asks need not poll.
bool is_draining(QueuePair& qp) noexcept {
  if (qp.mode.load(std::memory_order_relaxed) != IBV_QPS_SQD) return false;
  retry_pending(qp);
  return qp.mode.load(std::memory_order_relaxed) == IBV_QPS_SQD &&
         qp.stall.why != Stall::Why::drained;
}

/// To SQD. Who asks for the event may sleep until it comes, and poll nothing.
int drain(QueuePair& qp, bool asks_for_event) noexcept {
  auto& context = qp.owner();
  if (asks_for_event && qp.stall.why != Stall::Why::none)
    if (auto const error = context.retrier.sleeper_came(context); error != 0) return error;
  qp.attributes.en_sqd_async_notify = asks_for_event ? 1 : 0;
  qp.mode.store(IBV_QPS_SQD, std::memory_order_relaxed);
  hold_sends(qp);
  return 0;
}

/// Out of SQE. What was posted there and not polled is flushed before all that follows.
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
    cq.local[cq.local_tail++ & cq.mask] = {
        &qp, work.id, work.position, 0, 0, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND};
  }
  qp.pending_head.store(tail, std::memory_order_relaxed);
  unlink<&QueuePair::next_flushing_send>(cq.flushing_sends, qp);
  qp.is_flushing = false;
  return 0;
}

/// The caller walks.
void look_for_trouble(Context& context) noexcept {
  // Acquire pairs with the release of the peer: its mark is seen below.
  auto const trouble = context.segment.header.trouble.load(std::memory_order_acquire);
  for (auto& entry : context.queue_pairs) {
    auto* const qp = entry.load(std::memory_order_acquire);
    if (qp == nullptr || !looks_broken(*qp->shared)) continue;
    std::lock_guard const send{qp->send_lock};
    // Another thread may have reset it meanwhile.
    if (looks_broken(*qp->shared)) enter_error(*qp);
  }
  context.trouble_seen.store(trouble, std::memory_order_relaxed);
}

int modify(QueuePair& qp, ibv_qp_attr const& given, int mask) {
  if (qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR) enter_error(qp);
  bool const draining = is_draining(qp);
  auto const from = qp.mode.load(std::memory_order_relaxed);
  auto const to = (mask & IBV_QP_STATE) != 0 ? given.qp_state : from;
  if (auto const error = check_transition(from, to, given, mask, qp.qp_type); error != 0)
    return error;
  // Source: kernel drivers/infiniband/sw/rxe/rxe_qp.c, __qp_chk_state().
  if (draining && to != IBV_QPS_ERR && to != IBV_QPS_RESET)
    return fail(EINVAL,
                "the send queue is still draining: wait for IBV_EVENT_SQ_DRAINED, or until "
                "ibv_query_qp says so");
  if ((mask & IBV_QP_AV) != 0)
    if (auto const error = check_address(qp.owner(), given.ah_attr); error != 0) return error;
  if (to == IBV_QPS_RTR && qp.qp_type != IBV_QPT_UD)
    if (auto const error = find_peer(qp, given.dest_qp_num); error != 0) return error;
  if (from == IBV_QPS_SQE && to == IBV_QPS_RTS)
    if (auto const error = leave_send_error(qp); error != 0) return error;
  if (from == IBV_QPS_RTS && to == IBV_QPS_SQD)
    return drain(qp, (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && given.en_sqd_async_notify != 0);
  keep(qp, given, mask);
  if (to == IBV_QPS_ERR) {
    enter_error(qp);
  } else if (to == IBV_QPS_RESET) {
    enter_reset(qp);
  } else {
    // To peers SQD is RTS: only our sends are concerned.
    publish(qp, to == IBV_QPS_SQD ? IBV_QPS_RTS : to);
    // Release pairs with wake_sender().
    qp.mode.store(to, std::memory_order_release);
    if (from == IBV_QPS_SQD && to == IBV_QPS_RTS) resume_sends(qp);
  }
  return 0;
}

}  // namespace

int check_address(Context const& context, ibv_ah_attr const& address) noexcept {
  if (address.is_global != 0) {
    if (address.grh.sgid_index != 0)
      return fail(EINVAL, "GID index %u, but the soft device has one GID, 0",
                  address.grh.sgid_index);
    auto const& gid = address.grh.dgid.global;
    if (gid.subnet_prefix == htobe64(0xfe80000000000000) &&
        gid.interface_id == htobe64(context.guid))
      return 0;
    return fail(ENETUNREACH,
                "the peer's GID is not of this host, user, boot and namespaces: the soft device "
                "connects processes of one user on one host, in one pid and time namespace");
  }
  return address.dlid == 1
             ? 0
             : fail(ENETUNREACH, "the peer's LID is %u, but every soft device has LID 1",
                    address.dlid);
}

void enter_error(QueuePair& qp) noexcept {
  if (qp.mode.load(std::memory_order_relaxed) == IBV_QPS_ERR) return;
  {
    RobustGuard const guard{qp.shared->rx, qp.owner().claimant};
    // Who else broke it has told.
    if (qp.srq != nullptr && !looks_broken(*qp.shared))
      raise_events(qp.owner().segment, *qp.shared, bit_of(IBV_EVENT_QP_LAST_WQE_REACHED),
                   qp.owner().own_wakers);
    qp.shared->state.store(IBV_QPS_ERR, std::memory_order_release);
    if (qp.srq != nullptr) qp.flushing_claim = take_own_claim(qp);
  }
  bool const has_claim = qp.flushing_claim != 0;
  qp.mode.store(IBV_QPS_ERR, std::memory_order_relaxed);
  flush_sends_of(qp);
  flush_receives_of(qp);
  // Who posts receives from now on sees ERR, and wakes for itself.
  { std::lock_guard const posters{qp.receive_lock}; }
  if (qp.pending_head.load() != qp.pending_tail.load()) notify_of_flush(qp.sends());
  if (has_claim || qp.receive_done.load() != qp.receive_posted.load())
    notify_of_flush(qp.receives());
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

void enter_reset(QueuePair& qp) noexcept {
  auto& context = qp.owner();
  std::lock_guard const posters{qp.receive_lock};
  auto const posted = qp.receive_posted.load(std::memory_order_relaxed);
  std::uint64_t claim = 0;
  {
    RobustGuard const guard{qp.shared->rx, context.claimant};
    qp.shared->state.store(IBV_QPS_RESET, std::memory_order_release);
    if (qp.srq != nullptr) claim = take_own_claim(qp);
    qp.shared->claim.set(0);
    qp.shared->remote_number.set(0);
    qp.shared->remote_instance.set(0);
    qp.shared->epoch.set(qp.epoch + 1);
    qp.shared->events.set(qp.shared->events.get() & ~(was_established | is_breaking));
    qp.shared->receive_tail.store(posted, std::memory_order_relaxed);
  }
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
    RobustGuard const producers{cq.shared->lock, context.claimant};
    std::lock_guard const guard{cq.lock};
    unlink<&QueuePair::next_flushing_receive>(cq.flushing_receives, qp);
    if (qp.srq != nullptr) {
      recycle_unpolled(qp);
      recycle_claim(qp, claim);
      recycle_claim(qp, std::exchange(qp.flushing_claim, 0));
    }
    drop_receives_of(qp);
    ++qp.epoch;  // completions that were taken from the ring and not polled yet are of the old one
    qp.receive_done.store(posted);
  }
  qp.is_flushing = false;
  qp.target = nullptr;
  qp.wakers.let_go();
  if (qp.peer != nullptr) context.peers.release(qp.peer);
  qp.peer = nullptr;
  if (qp.contacts) qp.contacts->forget();
  qp.attributes = {};
}

void notice_trouble(Context& context) noexcept {
  // Who sleeps next polls no more: somebody must look, and nobody waits for who stalls the walker.
  if (!context.walk.lock_or_leave()) return;
  look_for_trouble(context);
  end_walk(context);
}

void end_walk(Context& context) noexcept {
  while (!context.walk.unlock()) look_for_trouble(context);
}

int modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) noexcept try {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  if (auto const error = qp.owner().check_ours(); error != 0) return error;
  std::lock_guard const guard{qp.send_lock};
  auto const error = modify(qp, *attributes, mask);
  qp.state = qp.mode.load(std::memory_order_relaxed);
  return error;
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
