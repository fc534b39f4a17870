// SPDX-License-Identifier: MIT OR Apache-2.0
// The receive that a request takes at its target: matched, completed or given up.
#pragma once

#include <soft/engine/request_at_target.hpp>
#include <soft/memory/copy.hpp>
#include <soft/memory/reach.hpp>
#include <soft/segment/bounce.hpp>
#include <soft/segment/claims.hpp>
#include <soft/segment/completion_ring.hpp>
#include <soft/segment/pool_ring.hpp>
#include <soft/segment/receive_ring.hpp>

#include <algorithm>
#include <utility>

namespace lend::soft {

inline constexpr std::uint32_t stream_depth = 4;  // on their way; a ping-pong has one or two

template <ibv_qp_type type>
class TakenReceive : protected RequestAtTarget<type> {
 protected:
  using Base = RequestAtTarget<type>;
  using Base::is_datagram;
  using Base::is_reliable;
  using Base::last_receive;
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
    qp_.next_receive.store(&ring.at(position_ + 1), std::memory_order_relaxed);
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
      if (answer == TargetMemory::Answer::unreachable) return Fault::unreachable_memory;
      if (answer == TargetMemory::Answer::unable) return Fault::no_descriptor;
      left -= part;
    }
    return left == 0 ? Fault::none : Fault::corrupt_target;
  }

  /// Where the bytes of the request are as the receive completes.
  enum class Bytes { placed, in_completion, in_eager_ring };

  /// Where a message goes whose receive is not mapped, and copies it to the eager ring if there is
  /// room; `placed` if it is for the caller to move.
  [[nodiscard]] Bytes place_apart(std::uint32_t length, TargetMemory const& memory) noexcept {
    if (!is_reliable() || memory.extents().all_mapped) return Bytes::placed;
    if (length <= SharedCompletion::inline_max) return Bytes::in_completion;
    eager_ = room_in_eager_ring(segment(), target_, length);
    if (eager_.bytes == nullptr) return Bytes::placed;
    auto* to = eager_.bytes;
    for (std::uint32_t i = 0; i < ours_.count; ++i) {
      copy_in_order(to, ours_.items[i].mapped, ours_.items[i].length);
      to += ours_.items[i].length;
    }
    return Bytes::in_eager_ring;
  }

  /// Completes it.
  [[gnu::always_inline]] inline Pushed complete(std::uint32_t length, Bytes where) noexcept {
    ReceiveEnd end;  // not initialised as a whole: 100 bytes and more for every message
    end.length = length;
    end.immediate = work_.immediate;
    end.status = IBV_WC_SUCCESS;
    end.kind = is_send(work_) ? ReceiveKind::send : ReceiveKind::write_with_immediate;
    end.flags = has_immediate(work_)    ? IBV_WC_WITH_IMM
                : returns_window(work_) ? IBV_WC_WITH_INV
                                        : 0;
    end.inline_length = 0;
    end.is_solicited = work_.is_solicited();
    if (where == Bytes::in_completion) {
      end.inline_length = static_cast<std::uint8_t>(length);
      if (length > SharedCompletion::own_max) [[unlikely]]
        end.kind = ReceiveKind::wide;
      auto* at = reinterpret_cast<std::byte*>(end.bytes);
      for (std::uint32_t i = 0; i < ours_.count; ++i) {
        copy_few(at, ours_.items[i].mapped, ours_.items[i].length);
        at += ours_.items[i].length;
      }
    }
    if (where == Bytes::in_eager_ring) {
      end.kind = ReceiveKind::eager;
      end.inline_length = sizeof end.bytes[0];
      end.bytes[0] = eager_.position;
    }
    if (is_datagram()) {
      end.kind = ReceiveKind::datagram;
      end.inline_length = sizeof end.bytes[0];
      end.bytes[0] = work_.datagram.word_from(qp_.qp_num);
    }
    auto const pushed = push(end);
    // After the completion: a sender that dies in between has used no room of another's.
    if (where == Bytes::in_eager_ring && pushed == Pushed::yes) use(segment(), target_, eager_);
    return pushed;
  }

  void finish_receive(ibv_wc_status status, Fault fault) noexcept {
    ReceiveEnd end;
    end.length = 0;
    end.immediate = static_cast<std::uint32_t>(fault);
    end.status = static_cast<std::uint8_t>(status);
    end.kind = ReceiveKind::send;
    end.flags = 0;
    end.inline_length = 0;
    end.is_solicited = true;
    // Should we die before it is broken, its owner finds the mark when it polls this completion.
    end.marks = last_receive() | is_breaking;
    told_by_completion_ = push(end) == Pushed::yes;  // an overrun is no worse than the error itself
  }

  Pushed push(ReceiveEnd& end) noexcept {
    end.queue_pair = number();
    end.epoch = target_.epoch.get();
    end.receive = receive_id_;
    // Whether the poster has yet to look for the ends of some before.
    end.is_in_stream =
        work_.position - qp_.send_freed.load(std::memory_order_relaxed) >= stream_depth;
    auto const pushed = push_receive_end(segment(), target_.completion_queue.get(), end,
                                         qp_.owner().claimant, peer_.wake_pipes());
    if (pushed != Pushed::yes) return pushed;
    // After the completion: if this process dies in between, no sender matches this receive again:
    // we were its only sender; or the claim is settled, and found void.
    if (target_.pool.get() == 0)
      target_.receive_tail.store(position_ + 1, std::memory_order_relaxed);
    if (is_claimed_) target_.claim.set(0);
    return pushed;
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
  EagerRoom eager_;  // set by place_apart()
  bool is_claimed_ = false;
  bool told_by_completion_ = false;
};

}  // namespace lend::soft
