// SPDX-License-Identifier: MIT OR Apache-2.0
// Making and destroying queue pairs.
#include <soft/objects/queue_pair.hpp>

#include <soft/memory/page_ranges.hpp>
#include <soft/objects/async_events.hpp>
#include <soft/objects/domain.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/peers/contacts.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/bounce.hpp>
#include <soft/segment/receive_ring.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>

namespace lend::soft {
namespace {

int check(ibv_pd const& pd, ibv_qp_init_attr const& asked) noexcept {
  if (operations_of(asked.qp_type) == 0)
    return fail(EOPNOTSUPP, "the soft device has queue pairs of the types RC, UC and UD");
  if (asked.send_cq == nullptr || asked.recv_cq == nullptr)
    return fail(EINVAL, "a queue pair needs two completion queues, which may be one");
  if (asked.send_cq->context != pd.context || asked.recv_cq->context != pd.context ||
      (asked.srq != nullptr && asked.srq->context != pd.context))
    return fail(EINVAL, "the queues and the protection domain belong to different open devices");
  auto const& cap = asked.cap;
  if (cap.max_send_wr > queue_depth_max || cap.max_recv_wr > queue_depth_max ||
      cap.max_send_sge > pieces_max || cap.max_recv_sge > pieces_max ||
      cap.max_inline_data > inline_bytes_max)
    return fail(EINVAL, "a queue pair of the soft device has depths to %u, %u elements, %u inline",
                queue_depth_max, pieces_max, inline_bytes_max);
  return 0;
}

/// Private memory, all of it; nothing is touched before it is used.
std::unique_ptr<QueuePair> prepare(ibv_pd* pd, ibv_qp_init_attr const& asked) {
  auto qp = std::make_unique<QueuePair>();
  qp->context = pd->context;
  qp->qp_context = asked.qp_context;
  qp->pd = pd;
  qp->send_cq = asked.send_cq;
  qp->recv_cq = asked.recv_cq;
  qp->srq = asked.srq;
  qp->qp_type = asked.qp_type;
  qp->state = IBV_QPS_RESET;
  qp->mode = IBV_QPS_RESET;
  qp->made_with = asked;
  auto& cap = qp->made_with.cap;
  cap.max_inline_data = inline_bytes_max;
  cap.max_send_sge = std::max(cap.max_send_sge, 1u);
  cap.max_recv_sge = std::max(cap.max_recv_sge, 1u);
  // Source: ibv_create_qp(3): ignored where there is a shared receive queue.
  if (asked.srq != nullptr) cap.max_recv_wr = cap.max_recv_sge = 0;
  qp->flags = asked.sq_sig_all != 0 ? IBV_SEND_SIGNALED : 0;
  qp->operations = operations_of(asked.qp_type);
  if (asked.qp_type == IBV_QPT_UD)
    qp->contacts = std::make_shared<Contacts>(Context::of(pd->context).peers);

  qp->send_depth = cap.max_send_wr;
  // In no whole lines: it is seldom used, and an idle queue pair has one for each send.
  constexpr std::size_t unit = alignof(PendingWork);
  qp->pending_stride =
      (sizeof(PendingWork) + cap.max_send_sge * sizeof(ibv_sge) + cap.max_inline_data + unit - 1) /
      unit * unit;
  // A power of two: positions wrap.
  auto const sends = std::bit_ceil(std::max(qp->send_depth, 1u));
  qp->send_mask = sends - 1;
  qp->pending = std::make_unique_for_overwrite<std::byte[]>(sends * qp->pending_stride);

  qp->receive_depth = cap.max_recv_wr;
  auto const slots = std::bit_ceil(std::max(cap.max_recv_wr, 1u));
  qp->receive_mask = slots - 1;
  qp->receive_stride = receive_stride_for(cap.max_recv_sge);
  qp->posted_stride = sizeof(PostedReceive) + cap.max_recv_sge * sizeof(ibv_sge);
  qp->posted = std::make_unique_for_overwrite<std::byte[]>(slots * qp->posted_stride);
  return qp;
}

/// Of the receives, in whole pages, and behind them the bounce buffers.
std::size_t receives_bytes(QueuePair const& qp) noexcept {
  return whole_pages((qp.receive_mask + std::size_t{1}) * qp.receive_stride);
}
std::size_t ring_bytes(QueuePair const& qp) noexcept {
  return receives_bytes(qp) + sizeof(BounceBuffers);
}

/// The index after the last one given, so that numbers come back late; its rx is locked. Not one
/// whose rx a sender that comes too late still holds. Or queue_pairs_max.
std::uint32_t take_index(Context& context) noexcept {
  for (std::uint32_t tried = 0; tried < queue_pairs_max; ++tried) {
    auto const index = context.next_queue_pair++ % queue_pairs_max;
    if (context.queue_pairs[index].load(std::memory_order_relaxed) == nullptr &&
        context.segment.queue_pairs[index].rx.lock_in_time(context.claimant))
      return index;
  }
  return queue_pairs_max;
}

/// The caller holds rx, whose word stays as it is.
void publish(QueuePair& qp) noexcept {
  auto& shared = *qp.shared;
  shared.state.store(IBV_QPS_RESET, std::memory_order_relaxed);
  qp.receiver = receiver_name(qp.index, shared.epoch.get() + 1);
  shared.epoch.set(qp.epoch());
  shared.remote_number.set(0);
  shared.remote_instance.set(0);
  shared.access.set(0);
  shared.domain.set(qp.pd->handle);
  shared.completion_queue.set(qp.receives().index);
  shared.send_completion_queue.set(qp.sends().index);
  shared.ring_offset.set(qp.receive_ring_offset);
  shared.ring_mask.set(qp.receive_mask);
  shared.ring_stride.set(static_cast<std::uint16_t>(qp.receive_stride));
  shared.pool.set(static_cast<std::uint16_t>(qp.pool() != nullptr ? qp.pool()->index + 1 : 0));
  shared.claim.set(0);
  shared.remote_key.store(0, std::memory_order_relaxed);  // a killed sender's
  shared.awaited.store(0, std::memory_order_relaxed);
  shared.offer.forget();
  shared.eager_tail.set(0);
  shared.eager_head_seen.set(0);
  shared.eager_head.store(0, std::memory_order_relaxed);
  shared.bounce_offset.set(qp.receive_ring_offset + receives_bytes(qp));
  shared.type.set(static_cast<std::uint8_t>(qp.qp_type));
  shared.key.set(0);
  shared.events.set(0);
  shared.receive_tail.store(0, std::memory_order_relaxed);
}

}  // namespace

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* asked) noexcept {
  return make_qp(*pd, *asked, false);
}

ibv_qp* make_qp(ibv_pd& pd, ibv_qp_init_attr& asked, bool has_builders) noexcept try {
  auto& context = Context::of(pd.context);
  if (context.check_ours() != 0 || check(pd, asked) != 0) return nullptr;
  auto qp = prepare(&pd, asked);
  qp->has_builders = has_builders;

  std::lock_guard const guard{context.control};
  qp->index = take_index(context);
  if (qp->index == queue_pairs_max) {
    fail(ENOMEM, "the soft device has at most %u queue pairs", queue_pairs_max);
    return nullptr;
  }
  context.queue_pairs_end = std::max(context.queue_pairs_end, qp->index + 1);
  qp->shared = &context.segment.queue_pairs[qp->index];
  RobustGuard const senders{qp->shared->rx, std::adopt_lock};
  qp->receive_ring_offset = context.take_ring(ring_bytes(*qp));
  if (qp->receive_ring_offset == 0) return nullptr;
  qp->receive_ring = ring_at(context.segment, qp->receive_ring_offset, qp->receive_mask + 1ull,
                             qp->receive_stride);
  qp->qp_num = context.slot.tenant().slot << index_bits | qp->index;
  qp->handle = qp->index;
  publish(*qp);
  ::pthread_mutex_init(&qp->mutex, nullptr);
  ::pthread_cond_init(&qp->cond, nullptr);
  static_cast<Domain&>(pd).users.fetch_add(1);
  ++qp->sends().users;
  ++qp->receives().users;
  if (qp->pool() != nullptr) ++qp->pool()->users;
  asked.cap = qp->made_with.cap;
  // Release pairs with the acquire of all who look here without `control`: walkers and pollers.
  context.queue_pairs[qp->index].store(qp.get(), std::memory_order_release);
  return qp.release();
} catch (std::bad_alloc const&) {
  fail(ENOMEM);
  return nullptr;
}

int destroy_qp(ibv_qp* queue_pair) noexcept {
  auto* const qp = static_cast<QueuePair*>(queue_pair);
  auto& context = qp->owner();
  if (!context.is_ours()) return 0;
  std::unique_lock guard{context.control, std::defer_lock};
  auto const error = wait_for_holders(context, [&] {
    guard.lock();
    context.walk.lock();
    RobustLock const* held = nullptr;
    {
      std::lock_guard const senders{qp->send_lock};
      held = enter_reset(*qp, ResetFor::destruction);
      if (held == nullptr) context.queue_pairs[qp->index].store(nullptr, std::memory_order_relaxed);
    }
    end_walk(context);
    if (held != nullptr) guard.unlock();
    return held;
  });
  if (error != 0) return error;
  // Pollers of any queue may have found it: a corrupt peer, or an old completion, names its index.
  for (auto* const queue : context.completion_queues)
    if (queue != nullptr) std::lock_guard const pollers{queue->lock};
  guard.unlock();
  await_acknowledged(*qp, qp->events_completed, qp->events_reported);
  guard.lock();
  context.give_back_ring(qp->receive_ring_offset, ring_bytes(*qp));
  static_cast<Domain*>(qp->pd)->users.fetch_sub(1);
  --qp->sends().users;
  --qp->receives().users;
  if (qp->pool() != nullptr) --qp->pool()->users;
  ::pthread_cond_destroy(&qp->cond);
  ::pthread_mutex_destroy(&qp->mutex);
  delete qp;
  return 0;
}

}  // namespace lend::soft
