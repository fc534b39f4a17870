// SPDX-License-Identifier: MIT OR Apache-2.0
// Making, changing and destroying shared receive queues.
// Source: ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3).
#include <soft/objects/receive_pool.hpp>

#include <soft/objects/async_events.hpp>
#include <soft/objects/domain.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/receive_ring.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>

namespace lend::soft {
namespace {

int check(ibv_srq_attr const& asked) noexcept {
  if (asked.max_wr == 0 || asked.max_wr > queue_depth_max || asked.max_sge > pieces_max)
    return fail(EINVAL,
                "a shared receive queue of the soft device has 1 to %u receives of at most %u "
                "pieces",
                queue_depth_max, pieces_max);
  return 0;
}

std::unique_ptr<ReceivePool> prepare(ibv_pd* pd, ibv_srq_init_attr const& asked) {
  auto pool = std::make_unique<ReceivePool>();
  pool->context = pd->context;
  pool->srq_context = asked.srq_context;
  pool->pd = pd;
  pool->depth = asked.attr.max_wr;
  pool->pieces = std::max(asked.attr.max_sge, 1u);
  auto const slots = std::bit_ceil(pool->depth);
  pool->ring.mask = slots - 1;
  pool->ring.stride = receive_stride_for(pool->pieces);
  pool->kept_stride = sizeof(PostedReceive) + pool->pieces * sizeof(ibv_sge);
  pool->kept = std::make_unique_for_overwrite<std::byte[]>(pool->depth * pool->kept_stride);
  pool->words = std::make_unique<std::uint64_t[]>(pool->depth);
  pool->free = std::make_unique_for_overwrite<std::uint32_t[]>(pool->depth);
  for (auto i = pool->depth; i > 0; --i) pool->free[pool->free_count++] = i - 1;
  return pool;
}

/// In the segment, behind the order.
std::uint64_t receives_offset_of(ReceivePool const& pool) noexcept {
  auto const end = pool.ring_offset + (pool.ring.mask + 1) * sizeof(std::uint64_t);
  return (end + cache_line - 1) / cache_line * cache_line;
}

/// The caller holds its lock, whose word stays as it is.
void publish(ReceivePool& pool) noexcept {
  auto& shared = *pool.shared;
  shared.limit.set(0);
  shared.limit_reached.set(0);
  shared.tail.store(0, std::memory_order_relaxed);
  shared.posted.set(0);
  shared.is_awaited.set(0);
  shared.domain.set(pool.pd->handle);
  shared.order_offset.set(pool.ring_offset);
  shared.receives_offset.set(receives_offset_of(pool));
  shared.mask.set(static_cast<std::uint32_t>(pool.ring.mask));
  shared.stride.set(pool.ring.stride);
}

}  // namespace

RobustLock* lock_of_claim(QueuePair const& qp) noexcept {
  return qp.srq != nullptr && qp.shared->claim.get() != 0 ? &qp.pool()->shared->lock : nullptr;
}

std::uint64_t take_own_claim(QueuePair& qp) noexcept {
  auto const word = lost_claim(qp.pool()->ring, *qp.shared, qp.index);
  qp.shared->claim.set(0);
  return word;
}

void recycle_claim(QueuePair& qp, std::uint64_t word) noexcept {
  if (qp.pool()->end_as(word)) qp.pool()->recycle(PoolRing::index_of(word));
}

void recycle_unpolled(QueuePair& qp) noexcept {
  auto const& cq = qp.receives();
  auto& pool = *qp.pool();
  for (auto at = cq.head; at - cq.head <= cq.mask; ++at) {
    auto const& slot = cq.ring[at & cq.mask];
    // Acquire pairs with the release in push_receive_end().
    if (slot.sequence.load(std::memory_order_acquire) != at + 1) return;
    if (slot.receiver.get() != qp.receiver) continue;
    if (auto const index = pool.end_of(slot)) pool.recycle(*index);
  }
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* asked) noexcept try {
  auto& context = Context::of(pd->context);
  if (context.check_ours() != 0 || check(asked->attr) != 0) return nullptr;
  auto pool = prepare(pd, *asked);

  std::lock_guard const guard{context.control};
  // Not one whose lock a process that comes too late still holds.
  auto const free = std::find_if(
      context.receive_pools.begin(), context.receive_pools.end(), [&](ReceivePool*& entry) {
        auto const index = &entry - context.receive_pools.data();
        return entry == nullptr &&
               context.segment.receive_pools[index].lock.lock_in_time(context.claimant);
      });
  if (free == context.receive_pools.end()) {
    fail(ENOMEM, "the soft device has at most %u shared receive queues", receive_pools_max);
    return nullptr;
  }
  pool->index = static_cast<std::uint32_t>(free - context.receive_pools.begin());
  pool->shared = &context.segment.receive_pools[pool->index];
  RobustGuard const takers{pool->shared->lock, std::adopt_lock};
  auto const slots = pool->ring.mask + 1;
  pool->ring_length = slots * (sizeof(std::uint64_t) + pool->ring.stride) + cache_line;
  pool->ring_offset = context.take_ring(pool->ring_length);
  if (pool->ring_offset == 0) return nullptr;
  pool->handle = pool->index;
  publish(*pool);
  pool->ring.pool = pool->shared;
  pool->ring.order = reinterpret_cast<Atomic<std::uint64_t>*>(
      ring_at(context.segment, pool->ring_offset, slots, sizeof(std::uint64_t)));
  // Not read back from the segment: peers write there.
  pool->ring.receives =
      ring_at(context.segment, receives_offset_of(*pool), slots, pool->ring.stride);
  ::pthread_mutex_init(&pool->mutex, nullptr);
  ::pthread_cond_init(&pool->cond, nullptr);
  static_cast<Domain*>(pd)->users.fetch_add(1);
  asked->attr.max_wr = pool->depth;
  asked->attr.max_sge = pool->pieces;
  *free = pool.get();
  return pool.release();
} catch (std::bad_alloc const&) {
  fail(ENOMEM);
  return nullptr;
}

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* asked) noexcept {
  constexpr std::uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  auto const type =
      (asked->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? asked->srq_type : IBV_SRQT_BASIC;
  if ((asked->comp_mask & ~known) != 0 || type != IBV_SRQT_BASIC) {
    fail(EOPNOTSUPP, "the soft device has basic shared receive queues only");
    return nullptr;
  }
  if ((asked->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    fail(EINVAL, "a shared receive queue needs a protection domain");
    return nullptr;
  }
  ibv_srq_init_attr basic{asked->srq_context, asked->attr};
  auto* const made = create_srq(asked->pd, &basic);
  asked->attr = basic.attr;
  return made;
}

int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) noexcept {
  auto& pool = *static_cast<ReceivePool*>(srq);
  auto& context = Context::of(srq->context);
  if (auto const error = context.check_ours(); error != 0) return error;
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0)
    return fail(EINVAL, "only MAX_WR and LIMIT of a shared receive queue can be modified");
  // query_device does not show IBV_DEVICE_SRQ_RESIZE.
  if ((mask & IBV_SRQ_MAX_WR) != 0)
    return fail(EOPNOTSUPP, "a shared receive queue of the soft device cannot be resized");
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  if (attributes->srq_limit > pool.depth)
    return fail(EINVAL, "the limit %u is above the queue's %u receives", attributes->srq_limit,
                pool.depth);
  return wait_for_holders(context, [&]() -> RobustLock const* {
    auto& lock = pool.shared->lock;
    if (!lock.lock_in_time(context.claimant)) return &lock;
    RobustGuard const takers{lock, std::adopt_lock};
    pool.shared->limit.set(attributes->srq_limit);
    return nullptr;
  });
}

int query_srq(ibv_srq* srq, ibv_srq_attr* attributes) noexcept {
  auto& pool = *static_cast<ReceivePool*>(srq);
  if (auto const error = Context::of(srq->context).check_ours(); error != 0) return error;
  attributes->max_wr = pool.depth;
  attributes->max_sge = pool.pieces;
  attributes->srq_limit = std::min(pool.shared->limit.get(), pool.depth);
  return 0;
}

int destroy_srq(ibv_srq* srq) noexcept {
  auto* const pool = static_cast<ReceivePool*>(srq);
  auto& context = Context::of(srq->context);
  if (!context.is_ours()) return 0;
  int in_use = 0;
  auto const error = wait_for_holders(context, [&]() -> RobustLock const* {
    std::lock_guard const guard{context.control};
    if (pool->users != 0) {
      in_use = fail(EBUSY, "%u queue pairs still use the shared receive queue", pool->users);
      return nullptr;
    }
    auto& lock = pool->shared->lock;
    if (!lock.lock_in_time(context.claimant)) return &lock;
    RobustGuard const takers{lock, std::adopt_lock};
    forget_events(*pool);
    context.receive_pools[pool->index] = nullptr;  // no event of it from here on
    return nullptr;
  });
  if (error != 0 || in_use != 0) return EBUSY;
  await_acknowledged(*pool, pool->events_completed, pool->events_reported);
  std::lock_guard const guard{context.control};
  context.give_back_ring(pool->ring_offset, pool->ring_length);
  static_cast<Domain*>(pool->pd)->users.fetch_sub(1);
  ::pthread_cond_destroy(&pool->cond);
  ::pthread_mutex_destroy(&pool->mutex);
  delete pool;
  return 0;
}

}  // namespace lend::soft
