// SPDX-License-Identifier: MIT OR Apache-2.0
// A shared receive queue on the side of its consumers: processes that send to a queue pair that
// uses it. The caller holds that queue pair's rx lock.
//
// A consumer may die between taking a receive and completing it. So it first leaves a claim in the
// queue pair, and the next process that handles that queue pair settles it: the receive ends in an
// error, once, or was never taken.
#pragma once

#include <soft/segment/layout.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

class WakePipes;

/// The queue as its owner describes it, bounds-checked; `order` is null if the description is
/// invalid.
struct PoolRing {
  SharedReceivePool* pool;
  Atomic<std::uint64_t>* order;
  std::byte* receives;
  std::uint64_t mask;
  std::uint32_t stride;

  [[nodiscard]] SharedReceive& receive(std::uint32_t index) const noexcept {
    return *reinterpret_cast<SharedReceive*>(receives + (index & mask) * std::size_t{stride});
  }
  /// Publishes `word`, the owner's next. Counted first: a consumer that takes it checks how many
  /// remain.
  void offer(std::uint64_t position, std::uint64_t word) const noexcept {
    pool->posted.set(position + 1);
    // Release: the receive, and the count. Pairs with the acquire in waiting_at().
    order[position & mask].store(word, std::memory_order_release);
  }
  /// The word at `position`, or 0. Acquire pairs with the release in offer().
  [[nodiscard]] std::uint64_t waiting_at(std::uint64_t position) const noexcept {
    auto const word = order[position & mask].load(std::memory_order_acquire);
    return position_of(word) == position ? word : 0;
  }

  // A word of `order`: position + 1, and below it the index of the receive.
  static constexpr unsigned index_bits = 16;
  [[nodiscard]] static constexpr std::uint64_t word_of(std::uint64_t position,
                                                       std::uint32_t index) noexcept {
    return (position + 1) << index_bits | index;
  }
  [[nodiscard]] static constexpr std::uint64_t position_of(std::uint64_t word) noexcept {
    return (word >> index_bits) - 1;
  }
  [[nodiscard]] static constexpr std::uint32_t index_of(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word & ((1u << index_bits) - 1));
  }
};

/// The pool of `target`, which has one.
[[nodiscard]] PoolRing pool_ring_of(Segment&, SharedQueuePair const& target) noexcept;

/// Takes the next receive for queue pair `number` of `segment` and claims it there.
struct PoolTaken {
  SharedReceive const* receive;  // null: none is posted, or
  bool is_held;                  // the queue's lock did not become free
  std::uint32_t index;
};
[[nodiscard]] PoolTaken take_from_pool(PoolRing const&, SharedQueuePair& target,
                                       std::uint32_t number, Claimant const&,
                                       SharedWake const& async, WakePipes&) noexcept;

/// The receive that `word`, a claim, names.
[[nodiscard]] inline PoolTaken taken_before(PoolRing const& ring, std::uint64_t word) noexcept {
  return {&ring.receive(PoolRing::index_of(word)), false, PoolRing::index_of(word)};
}

/// The word claimed by a consumer that did not complete it, if it was indeed taken; otherwise 0.
/// The caller holds the pool's lock, ends that receive and clears the claim, in this order.
[[nodiscard]] std::uint64_t lost_claim(PoolRing const&, SharedQueuePair const& target,
                                       std::uint32_t number) noexcept;

}  // namespace lend::soft
