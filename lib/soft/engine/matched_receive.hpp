// SPDX-License-Identifier: MIT OR Apache-2.0
// The receive that a request matches at its target: found, kept or given up.
#pragma once

#include <soft/engine/request_at_target.hpp>
#include <soft/memory/reach.hpp>
#include <soft/segment/claims.hpp>
#include <soft/segment/pool_ring.hpp>
#include <soft/segment/receive_ring.hpp>

#include <algorithm>
#include <utility>

namespace lend::soft {

template <ibv_qp_type type>
class MatchedReceive : protected RequestAtTarget<type> {
 protected:
  using Base = RequestAtTarget<type>;
  using Base::is_datagram;
  using Base::is_reliable;
  using Base::number;
  using Base::ours_;
  using Base::peer_;
  using Base::qp_;
  using Base::segment;
  using Base::target_;
  using Base::work_;

  using Base::Base;

  enum class Matched { one, none, corrupt, held };

  /// The next receive of the target's own queue.
  Matched match() noexcept {
    auto const ring = receive_ring_of(segment(), target_);
    if (ring.base == nullptr) return Matched::corrupt;
    position_ = target_.receive_tail.load(std::memory_order_relaxed);
    auto const& posted = ring.at(position_);
    qp_.expect_receive_at(&ring.at(position_ + 1));
    if (!is_valid(posted, position_)) return Matched::none;
    receive_ = &posted;
    receive_id_ = static_cast<std::uint32_t>(position_);
    pieces_limit_ = ring.pieces();
    receive_domain_ = target_.domain.get();
    if (is_datagram()) claim(position_ + 1);  // others send here too
    return Matched::one;
  }

  void claim(std::uint64_t word) noexcept {
    target_.claim.set(word);
    is_claimed_ = true;
  }

  /// The next receive of the target's shared receive queue.
  Matched match_in_pool() noexcept {
    auto const ring = pool_ring_of(segment(), target_);
    if (ring.order == nullptr) return Matched::corrupt;
    // This work took it before a lock held it back, unless that claim was settled; or its receiver
    // took it for this work, and could not complete it (unexpected.hpp).
    auto const claimed = target_.claim.get();
    auto const word = is_reliable() ? claimed : qp_.stall.claim;
    auto const taken = word != 0 && word == claimed
                           ? taken_before(ring, word)
                           : take_from_pool(ring, target_, number(), qp_.owner().claimant,
                                            segment().header.async, peer_.wake_pipes());
    if (taken.is_held) return qp_.stall.lock = &ring.pool->lock, Matched::held;
    if (taken.receive == nullptr) return Matched::none;
    receive_ = taken.receive;
    receive_id_ = taken.index;
    pieces_limit_ = pieces_of_stride(ring.stride);
    receive_domain_ = ring.pool->domain.get();
    is_claimed_ = true;
    return Matched::one;
  }

  /// Where the receive's pieces take the first `length` bytes.
  Fault scatter_list(std::uint32_t length, bool only_check, TargetMemory& memory) noexcept {
    auto const count = receive_->piece_count.get();
    if (count > pieces_limit_) return Fault::corrupt_target;
    // The pieces lie one after another, beyond the three of the first line too.
    auto const* piece = static_cast<SharedPiece const*>(receive_->pieces);
    auto left = length;
    for (std::uint32_t i = 0; i < count && left > 0; ++i, ++piece) {
      auto const size = piece->length.get();
      if (size == 0) continue;
      auto const part = std::min(size, left);
      auto const key = piece->key.get();
      auto const address = piece->address.get();
      auto const answer =
          only_check ? memory.check(key, receive_domain_, address, part, IBV_ACCESS_LOCAL_WRITE)
                     : memory.add(key, receive_domain_, address, part, IBV_ACCESS_LOCAL_WRITE);
      if (answer == TargetMemory::Answer::denied) return Fault::receive_key;
      if (answer == TargetMemory::Answer::unable) return Fault::no_descriptor;
      left -= part;
    }
    return left == 0 ? Fault::none : Fault::corrupt_target;
  }

  /// A lock of the target's did not come free, and qp_.stall.lock names it.
  Outcome held_back() noexcept {
    if (is_claimed_) keep_claim(qp_, target_);
    return soft::held_back(qp_, *qp_.stall.lock, ours_.total);
  }
  Outcome held_back_by_queue() noexcept {
    auto const index = target_.completion_queue.get() % completion_queues_max;
    return qp_.stall.lock = &segment().completion_queues[index].lock, held_back();
  }
  /// A receive of a shared queue that a lost message had taken ends so. Source: ibv_poll_cq(3),
  /// IBV_WC_REM_ABORT_ERR. Our own receive waits for the next. False: its end has no room.
  bool give_up_claim() noexcept {
    bool const is_ours = std::exchange(is_claimed_, false);
    if (!is_ours || target_.pool.get() != 0)
      return settle_claim(segment(), target_, number(), IBV_WC_REM_ABORT_ERR, qp_.owner().claimant,
                          peer_.wake_pipes());
    target_.claim.set(0);
    return true;
  }

  SharedReceive const* receive_ = nullptr;
  std::uint64_t position_ = 0;
  std::uint32_t receive_id_ = 0;
  std::uint32_t pieces_limit_ = 0;
  std::uint32_t receive_domain_ = 0;
  bool is_claimed_ = false;
};

}  // namespace lend::soft
