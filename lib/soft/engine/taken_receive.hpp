// SPDX-License-Identifier: MIT OR Apache-2.0
// The receive that a request takes at its target: filled and completed.
#pragma once

#include <soft/engine/matched_receive.hpp>
#include <soft/memory/copy.hpp>
#include <soft/memory/reach.hpp>
#include <soft/segment/bounce.hpp>
#include <soft/segment/completion_ring.hpp>

namespace lend::soft {

inline constexpr std::uint32_t stream_depth = 4;  // on their way; a ping-pong has one or two

template <ibv_qp_type type>
class TakenReceive : protected MatchedReceive<type> {
 protected:
  using Base = MatchedReceive<type>;
  using Base::held_back;
  using Base::is_claimed_;
  using Base::is_datagram;
  using Base::is_reliable;
  using Base::last_receive;
  using Base::lost;
  using Base::number;
  using Base::ours_;
  using Base::peer_;
  using Base::position_;
  using Base::qp_;
  using Base::receive_id_;
  using Base::segment;
  using Base::target_;
  using Base::work_;

  using Base::Base;

  /// Where the bytes of the request are as the receive completes; or what must come first: room in
  /// the eager ring, or the receiver, who alone can copy them.
  enum class Bytes { placed, in_completion, in_eager_ring, without_room, left_to_receiver };

  /// Where a message goes whose receive is not mapped, and copies it to the eager ring if there is
  /// room; `placed` if it is for the caller to move.
  [[nodiscard]] Bytes place_apart(std::uint32_t length, TargetMemory const& memory) noexcept {
    if (memory.extents().all_mapped || (!is_reliable() && peer_.is_writable()))
      return Bytes::placed;
    if (length <= SharedCompletion::inline_max && !is_datagram()) return Bytes::in_completion;
    eager_ = room_in_eager_ring(segment(), target_, length);
    if (eager_.bytes == nullptr) {
      if (peer_.is_writable()) return Bytes::placed;
      return length <= eager_bytes_max ? Bytes::without_room : Bytes::left_to_receiver;
    }
    auto* to = eager_.bytes;
    for (std::uint32_t i = 0; i < ours_.count; ++i) {
      copy_in_order(to, ours_.items[i].mapped, ours_.items[i].length);
      to += ours_.items[i].length;
    }
    return Bytes::in_eager_ring;
  }

  /// What was offered before, since we look ourselves now. False: it was taken. No living
  /// process takes it just now, as we hold rx; but its receiver may have died while it did.
  [[gnu::noinline]] bool take_back(bool& was_refused) noexcept {
    was_refused = qp_.shared->offer.was_refused(qp_.offered);
    if (qp_.shared->offer.withdraw(qp_.offered) == Withdrawn::was_taken) return false;
    qp_.offered = 0;
    return true;
  }

  /// The message must wait for its receiver, which is called, with `marks`, should it sleep.
  Outcome await_receiver(Outcome::Kind kind, std::uint8_t marks) noexcept {
    qp_.stall.lock =
        call_receiver(segment(), target_, marks, qp_.owner().claimant, peer_.wake_pipes());
    if (qp_.stall.lock != nullptr) return held_back();
    if (is_claimed_) keep_claim(qp_, target_);
    // Should no thread be there to try it again.
    return {kind, 0, Fault::peer_is_silent, IBV_WC_RETRY_EXC_ERR, 0};
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
      if (where == Bytes::in_eager_ring) {
        end.inline_length = 2 * sizeof end.bytes[0];
        end.bytes[1] = eager_.position;
      }
    }
    // Others send datagrams there, too: should this sender die, none may take the room again.
    std::uint64_t tail = 0;
    if (where == Bytes::in_eager_ring && is_datagram()) {
      tail = target_.eager_tail.get();
      use(segment(), target_, eager_);
    }
    auto const pushed = push(end);
    if (where == Bytes::in_eager_ring && is_datagram() && pushed != Pushed::yes)
      target_.eager_tail.set(tail);
    // After the completion: what is tried again has used no room before.
    if (where == Bytes::in_eager_ring && !is_datagram() && pushed == Pushed::yes)
      use(segment(), target_, eager_);
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

  Outcome break_target(ibv_wc_status status, Fault fault, std::uint32_t length = 0) noexcept {
    auto const events = last_receive() | (told_by_completion_ ? 0 : event_of(status));
    auto const* const held =
        break_queue_pair(segment(), target_, events, qp_.owner().claimant, peer_.wake_pipes());
    // If a completion reports it, the poll that takes it finds the mark, as if this process had
    // died.
    if (held != nullptr && !told_by_completion_) return qp_.stall.lock = held, held_back();
    return is_reliable() ? ended(status, fault, length) : lost();
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

  EagerRoom eager_;  // set by place_apart()
  bool told_by_completion_ = false;
};

}  // namespace lend::soft
