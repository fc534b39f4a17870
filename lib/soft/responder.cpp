// SPDX-License-Identifier: MIT OR Apache-2.0
// One request from check to completion at the target.
//
// The order of checks: operation allowed, receive posted, length, keys; as a responder does.
// Source: kernel drivers/infiniband/sw/rxe/rxe_resp.c; statuses: InfiniBand Architecture
// Specification vol. 1, 9.7.5 and 11.6.2.
#include "responder.hpp"

#include "async_events.hpp"
#include "atomics.hpp"
#include "claims.hpp"
#include "copy.hpp"
#include "pool_ring.hpp"
#include "reach.hpp"
#include "receive_ring.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace lend::soft {
namespace {

constexpr std::uint32_t stream_depth = 4;  // messages on their way; a ping-pong has one or two

/// The responder: one request against one target queue pair, whose rx lock is held throughout. A
/// template, so that a reliable connection pays nothing for the other types.
template <ibv_qp_type type>
class Responder {
 public:
  Responder(QueuePair& qp, Work const& work, Stretches const& ours, Peer& peer,
            SharedQueuePair& target) noexcept
      : qp_{qp},
        work_{work},
        ours_{ours},
        peer_{peer},
        target_{target},
        memory_{peer, qp.owner().regions} {}

  Outcome respond() noexcept {
    // Acquire pairs with modify_qp: what RTR set is there.
    auto const state = target_.state.load(std::memory_order_acquire);
    if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS) || !is_paired())
      return stalled(Outcome::Kind::peer_is_silent);
    // Source: kernel drivers/infiniband/sw/rdmavt/qp.c, rvt_comm_est(): once, and not for UD.
    if (state == IBV_QPS_RTR && !is_datagram() && (target_.events.get() & was_established) == 0)
      raise_events(segment(), target_, bit_of(IBV_EVENT_COMM_EST) | was_established,
                   peer_.wakers());
    if (auto const refusal = refusal_of(work_, target_); refusal != Fault::none)
      return refuse(IBV_WC_REM_INV_REQ_ERR, refusal);
    if (takes_receive(work_)) return receive();
    return is_atomic(work_.opcode) ? change_remote() : access_remote();
  }

 private:
  static constexpr bool is_reliable() noexcept { return type == IBV_QPT_RC; }
  static constexpr bool is_datagram() noexcept { return type == IBV_QPT_UD; }

  Segment& segment() const noexcept { return peer_.segment(); }
  std::uint32_t number() const noexcept {
    return static_cast<std::uint32_t>(&target_ - segment().queue_pairs);
  }

  /// Whether the target listens to us.
  bool is_paired() const noexcept {
    if (target_.type.get() != type) return false;
    if (is_datagram()) return target_.key.get() == work_.datagram.key;
    return target_.remote_number.get() == qp_.qp_num &&
           target_.remote_instance.get() == qp_.owner().claimant.instance &&
           (target_.receive_psn.get() == qp_.attributes.sq_psn || !is_reliable());
  }

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
    // This work took it before a lock held it back, unless that claim was settled.
    auto const word = qp_.stall.claim;
    auto const taken = word != 0 && word == target_.claim.get()
                           ? taken_before(ring, word)
                           : take_from_pool(ring, target_, number(), qp_.owner().claimant,
                                            segment().header.async, peer_.wakers());
    if (taken.is_held) return qp_.stall.lock = &ring.pool->lock, Matched::held;
    if (taken.receive == nullptr) return Matched::none;
    receive_ = taken.receive;
    receive_id_ = taken.index;
    pieces_limit_ = pieces_of_stride(ring.stride);
    receive_domain_ = ring.pool->domain.get();
    is_claimed_ = true;
    return Matched::one;
  }

  Outcome receive() noexcept {
    // Of a sender that died. While it cannot be ended, nothing is received behind it.
    auto const claim = is_reliable() ? 0 : target_.claim.get();
    if (claim != 0 && claim != qp_.stall.claim && !give_up_claim()) return lost();
    auto const matched = target_.pool.get() == 0 ? match() : match_in_pool();
    if (matched == Matched::corrupt) return break_target(IBV_WC_REM_OP_ERR, Fault::corrupt_target);
    if (matched == Matched::held) return held_back();
    if (matched == Matched::none) return stalled(Outcome::Kind::receiver_not_ready);
    if (work_.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) return write_and_deliver();

    auto const length = static_cast<std::uint32_t>(ours_.total);
    if (length > receive_->length.get()) {
      if (is_reliable()) finish_receive(IBV_WC_LOC_LEN_ERR, Fault::receive_too_short);
      return refuse(IBV_WC_REM_INV_REQ_ERR, Fault::receive_too_short);
    }
    auto const is_small = length <= SharedCompletion::inline_max && !is_datagram();
    auto const answer = scatter_list(length, is_small);
    if (answer == Fault::unreachable_memory && peer_.is_going()) return lost_peer();
    if (answer != Fault::none) return fail_receive(answer);
    if (!is_small) {
      auto const copied = move(Direction::to_peer, length);
      if (copied == Copied::our_fault) return fail_ours();
      if (is_lost(copied)) return lost_peer();
      if (copied != Copied::all) return fail_receive(Fault::unreachable_memory);
    }
    return deliver(length, is_small);
  }

  /// Where the receive's pieces take the first `length` bytes.
  Fault scatter_list(std::uint32_t length, bool only_check) noexcept {
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
          only_check ? memory_.check(key, receive_domain_, address, part, IBV_ACCESS_LOCAL_WRITE)
                     : memory_.add(key, receive_domain_, address, part, IBV_ACCESS_LOCAL_WRITE);
      if (answer == TargetMemory::Answer::denied) return Fault::receive_key;
      if (answer == TargetMemory::Answer::unreachable) return Fault::unreachable_memory;
      if (answer == TargetMemory::Answer::unable) return Fault::no_descriptor;
      left -= part;
    }
    return left == 0 ? Fault::none : Fault::corrupt_target;
  }

  /// WRITE with an immediate, whose receive was matched.
  [[gnu::noinline]] Outcome write_and_deliver() noexcept { return access_remote(); }
  /// WRITE and READ. Inline: most work on a reliable connection is this and nothing else.
  [[gnu::always_inline]] inline Outcome access_remote() noexcept {
    auto const length = static_cast<std::uint32_t>(ours_.total);
    auto const is_read = work_.opcode == IBV_WR_RDMA_READ;
    if (length > 0) {
      unsigned const access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
      auto const answer =
          memory_.add(work_.remote_key, target_.domain.get(), work_.remote_address, length, access);
      if (answer != TargetMemory::Answer::granted) return out_of_reach(answer);
      auto const copied = move(is_read ? Direction::from_peer : Direction::to_peer, length);
      if (copied == Copied::our_fault) return fail_ours();
      if (is_lost(copied)) return lost_peer();
      if (copied != Copied::all) return refuse(IBV_WC_REM_OP_ERR, Fault::unreachable_memory);
    }
    if (receive_ != nullptr) return deliver(length, false);
    return ended(IBV_WC_SUCCESS, Fault::none, length);
  }

  /// Compare-and-swap, fetch-and-add. The key is checked before the alignment, as rxe does.
  Outcome change_remote() noexcept {
    std::uint64_t before = 0;
    auto const address = work_.remote_address;
    auto const answer = memory_.add(work_.remote_key, target_.domain.get(), address, sizeof before,
                                    IBV_ACCESS_REMOTE_ATOMIC);
    if (answer == TargetMemory::Answer::denied) return out_of_reach(answer);
    if (address % sizeof before != 0) return refuse(IBV_WC_REM_INV_REQ_ERR, Fault::misaligned);
    if (answer != TargetMemory::Answer::granted) return out_of_reach(answer);
    auto& lock = segment().header.atomics;
    if (!lock.lock_in_time(qp_.owner().claimant)) return qp_.stall.lock = &lock, held_back();
    auto const changed = reach([&](int thread) {
      return change_atomically(work_, memory_.stretches().items[0], thread, before);
    });
    lock.unlock();
    if (is_lost(changed)) return lost_peer();
    if (changed != Copied::all) return refuse(IBV_WC_REM_OP_ERR, Fault::unreachable_memory);
    scatter(before, ours_);
    return ended(IBV_WC_SUCCESS, Fault::none, sizeof before);
  }

  Outcome deliver(std::uint32_t length, bool carries_bytes) noexcept {
    ReceiveEnd end;  // not initialised as a whole: 72 bytes for every message
    end.length = length;
    end.immediate = work_.immediate;
    end.status = IBV_WC_SUCCESS;
    end.kind = is_send(work_) ? ReceiveKind::send : ReceiveKind::write_with_immediate;
    end.flags = has_immediate(work_) ? IBV_WC_WITH_IMM : 0;
    end.inline_length = 0;
    end.is_solicited = work_.is_solicited();
    if (carries_bytes) {
      end.inline_length = static_cast<std::uint8_t>(length);
      auto* at = reinterpret_cast<std::byte*>(end.bytes);
      for (std::uint32_t i = 0; i < ours_.count; ++i) {
        copy_few(at, ours_.items[i].mapped, ours_.items[i].length);
        at += ours_.items[i].length;
      }
    }
    if (is_datagram()) {
      end.kind = ReceiveKind::datagram;
      end.inline_length = sizeof end.bytes[0];
      end.bytes[0] = work_.datagram.word_from(qp_.qp_num);
    }
    auto const pushed = push(end);
    if (pushed == Pushed::yes) return ended(IBV_WC_SUCCESS, Fault::none, length);
    if (pushed == Pushed::held) return held_back_by_queue();
    if (pushed == Pushed::unheard || !can_tell()) return unheard();
    return break_target(IBV_WC_RETRY_EXC_ERR, Fault::queue_overrun);
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
    raise_events(segment(), target_, last_receive() | is_breaking, peer_.wakers());
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
                                         qp_.owner().claimant, peer_.wakers());
    if (pushed != Pushed::yes) return pushed;
    // After the completion: should we die in between, nobody matches this receive again, for we
    // were its only sender; or the claim is settled, and found void.
    if (target_.pool.get() == 0)
      target_.receive_tail.store(position_ + 1, std::memory_order_relaxed);
    if (is_claimed_) target_.claim.set(0);
    return pushed;
  }

  /// The target is not ready for this: the requester waits, or the message is lost.
  Outcome stalled(Outcome::Kind kind) const noexcept {
    if (!is_reliable()) return lost();
    return kind == Outcome::Kind::peer_is_silent
               ? Outcome{kind, 0, Fault::peer_is_silent, IBV_WC_RETRY_EXC_ERR, 0}
               : Outcome{kind, target_.rnr_timer.get(), Fault::receiver_not_ready,
                         IBV_WC_RNR_RETRY_EXC_ERR, 0};
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
  Outcome lost() const noexcept {
    return ended(IBV_WC_SUCCESS, Fault::none, static_cast<std::uint32_t>(ours_.total));
  }

  /// The request is at fault: classes C and D of rxe_resp.c.
  Outcome refuse(ibv_wc_status status, Fault fault) noexcept {
    if (is_reliable()) return break_target(status, fault);
    if (is_claimed_) (void)give_up_claim();  // or who comes next does
    return lost();
  }
  Outcome out_of_reach(TargetMemory::Answer why) noexcept {
    if (why == TargetMemory::Answer::denied)
      return refuse(IBV_WC_REM_ACCESS_ERR, Fault::remote_key);
    if (why == TargetMemory::Answer::unable) return unheard();
    return peer_.is_going() ? lost_peer() : refuse(IBV_WC_REM_OP_ERR, Fault::unreachable_memory);
  }
  /// Our own bytes are not there any more, which is no business of the target's.
  Outcome fail_ours() noexcept {
    if (is_claimed_) give_up_claim();
    return ended(IBV_WC_LOC_PROT_ERR, Fault::local_key);
  }
  /// The target's receive is at fault: class A.
  Outcome fail_receive(Fault fault) noexcept {
    if (fault == Fault::no_descriptor || !can_tell()) return unheard();
    finish_receive(IBV_WC_LOC_PROT_ERR, fault);
    return break_target(IBV_WC_REM_OP_ERR, fault);
  }
  /// A receive of a shared queue that a lost message had taken ends so. Source: ibv_poll_cq(3),
  /// IBV_WC_REM_ABORT_ERR. Our own receive waits for the next. False: its end has no room.
  bool give_up_claim() noexcept {
    bool const is_ours = std::exchange(is_claimed_, false);
    if (!is_ours || target_.pool.get() != 0)
      return settle_claim(segment(), target_, number(), IBV_WC_REM_ABORT_ERR, qp_.owner().claimant,
                          peer_.wakers());
    target_.claim.set(0);
    return true;
  }

  /// Whether its owner can be woken for what breaking it does; connections saw to that when made.
  bool can_tell() noexcept {
    if constexpr (is_datagram()) return wakers_.hold(peer_.wakers(), segment(), target_) == 0;
    return true;
  }
  /// We could not map its memory, or its owner would sleep beside what we did: so we did nothing.
  Outcome unheard() noexcept {
    if (is_claimed_) (void)give_up_claim();
    return is_reliable() ? ended(IBV_WC_RETRY_EXC_ERR, Fault::no_descriptor) : lost();
  }

  Outcome break_target(ibv_wc_status status, Fault fault) noexcept {
    auto const events = last_receive() | (told_by_completion_ ? 0 : event_of(status));
    auto const* const held =
        break_queue_pair(segment(), target_, events, qp_.owner().claimant, peer_.wakers());
    // Where a completion tells, whoever polls it finds the mark, as if we had died.
    if (held != nullptr && !told_by_completion_) return qp_.stall.lock = held, held_back();
    return is_reliable() ? ended(status, fault) : lost();
  }

  std::uint32_t last_receive() const noexcept {
    return target_.pool.get() != 0 ? bit_of(IBV_EVENT_QP_LAST_WQE_REACHED) : 0;
  }

  /// Again by another thread of the peer's, should the one it was reached by have ended.
  template <class Attempt>
  Copied reach(Attempt attempt) noexcept {
    for (;;) {
      auto const thread = peer_.thread();
      auto const copied = attempt(thread);
      if (copied != Copied::gone || !peer_.has_thread_beside(thread)) return copied;
    }
  }
  Copied move(Direction direction, std::size_t length) noexcept {
    return reach([&](int thread) {
      return transfer(direction, ours_, memory_.stretches(), length, thread);
    });
  }

  /// A dying peer's memory faults before its process is gone.
  bool is_lost(Copied copied) const noexcept { return copied != Copied::all && peer_.is_going(); }

  Outcome lost_peer() noexcept {
    peer_.mark_dead();
    return is_reliable() ? ended(IBV_WC_RETRY_EXC_ERR, Fault::peer_is_dead) : lost();
  }

  QueuePair& qp_;
  Work const& work_;
  Stretches const& ours_;
  Peer& peer_;
  SharedQueuePair& target_;
  TargetMemory memory_;
  struct Nothing {};  // but for datagrams, whose wakers are held when something must be told
  [[no_unique_address]] std::conditional_t<type == IBV_QPT_UD, HeldWakers, Nothing> wakers_;
  // The receive that was matched.
  SharedReceive const* receive_ = nullptr;
  std::uint64_t position_ = 0;
  std::uint32_t receive_id_ = 0;
  std::uint32_t pieces_limit_ = 0;
  std::uint32_t receive_domain_ = 0;
  bool is_claimed_ = false;
  bool told_by_completion_ = false;
};

}  // namespace

Outcome respond(QueuePair& qp, Work const& work, Stretches const& ours, Peer& peer,
                SharedQueuePair& target) noexcept {
  if (qp.qp_type == IBV_QPT_RC) [[likely]]
    return Responder<IBV_QPT_RC>{qp, work, ours, peer, target}.respond();
  return qp.qp_type == IBV_QPT_UC ? Responder<IBV_QPT_UC>{qp, work, ours, peer, target}.respond()
                                  : Responder<IBV_QPT_UD>{qp, work, ours, peer, target}.respond();
}

}  // namespace lend::soft
