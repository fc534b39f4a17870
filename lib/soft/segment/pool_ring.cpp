// SPDX-License-Identifier: MIT OR Apache-2.0
// Taking from a shared receive queue, and what a dead taker left.
#include <soft/segment/pool_ring.hpp>

#include <soft/segment/event_marks.hpp>

#include <mutex>

namespace lend::soft {

PoolRing pool_ring_of(Segment& segment, SharedQueuePair const& target) noexcept {
  auto const index = target.pool.get() - 1u;
  if (index >= receive_pools_max) return {};
  auto& pool = segment.receive_pools[index];
  std::uint64_t const mask = pool.mask.get();
  auto const stride = pool.stride.get();
  if (mask >= queue_depth_max || (mask & (mask + 1)) != 0) return {};
  if (stride < cache_line || stride % cache_line != 0) return {};
  auto* const order = ring_at(segment, pool.order_offset.get(), mask + 1, sizeof(std::uint64_t));
  auto* const receives = ring_at(segment, pool.receives_offset.get(), mask + 1, stride);
  if (order == nullptr || receives == nullptr) return {};
  return {&pool, reinterpret_cast<Atomic<std::uint64_t>*>(order), receives, mask, stride};
}

PoolTaken take_from_pool(PoolRing const& ring, SharedQueuePair& target, std::uint32_t number,
                         Claimant const& claimant, SharedWake const& async,
                         WakePipes& wake_pipes) noexcept {
  auto& pool = *ring.pool;
  if (!pool.lock.lock_in_time(claimant)) return {nullptr, true, 0};
  RobustGuard const guard{pool.lock, std::adopt_lock};
  auto const tail = pool.tail.load(std::memory_order_relaxed);
  auto const word = ring.waiting_at(tail);
  if (word == 0) return {nullptr, false, 0};
  auto const index = PoolRing::index_of(word);
  auto& receive = ring.receive(index);
  // Taken with the last of these three stores. Who dies before it leaves a claim that lost_claim()
  // finds void: the next taker writes its own name, or the tail was not moved.
  receive.sequence.store(number + 1ull, std::memory_order_relaxed);
  death_point();
  target.claim.set(word);
  death_point();
  pool.tail.store(tail + 1, std::memory_order_relaxed);

  auto const limit = pool.limit.get();
  if (limit == 0 || pool.posted.get() - (tail + 1) >= limit) return {&receive, false, index};
  // Source: kernel drivers/infiniband/sw/rxe/rxe_resp.c, get_srq_wqe(): once, then disarmed.
  // Without the token no thread would look: then the next taker raises it.
  if (pool.limit_reached.get() != event_untold && wake_pipes.wake(async) == Rung::unable)
    return {&receive, false, index};
  pool.limit_reached.set(event_untold);
  pool.limit.set(0);
  return {&receive, false, index};
}

std::uint64_t lost_claim(PoolRing const& ring, SharedQueuePair const& target,
                         std::uint32_t number) noexcept {
  auto const word = target.claim.get();
  if (word == 0) return 0;
  auto const taker =
      ring.receive(PoolRing::index_of(word)).sequence.load(std::memory_order_relaxed);
  bool const was_taken =
      ring.pool->tail.load(std::memory_order_relaxed) > PoolRing::position_of(word);
  return was_taken && taker == number + 1ull ? word : 0;
}

}  // namespace lend::soft
