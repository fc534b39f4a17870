// SPDX-License-Identifier: MIT OR Apache-2.0
// One request from check to completion at the target.
//
// The order of checks: operation allowed, receive posted, length, keys; as a responder does.
// Source: kernel drivers/infiniband/sw/rxe/rxe_resp.c; statuses: InfiniBand Architecture
// Specification vol. 1, 9.7.5 and 11.6.2.
#include <soft/engine/responder.hpp>

#include <soft/engine/atomics.hpp>
#include <soft/engine/taken_receive.hpp>
#include <soft/engine/unexpected.hpp>
#include <soft/memory/copy.hpp>
#include <soft/memory/reach.hpp>
#include <soft/segment/completion_layout.hpp>
#include <soft/segment/window_scope.hpp>

#include <algorithm>
#include <utility>

namespace lend::soft {
namespace {

/// The responder: one request against one target queue pair, whose rx lock is held throughout.
template <ibv_qp_type type>
class Responder : TakenReceive<type> {
 public:
  Responder(QueuePair& qp, Work const& work, Extents const& ours, Peer& peer,
            SharedQueuePair& target) noexcept
      : Receive{qp, work, ours, peer, target}, memory_{peer, qp.owner().regions} {}

  Outcome respond() noexcept {
    // Acquire pairs with modify_qp: what RTR set is there.
    auto const state = target_.state.load(std::memory_order_acquire);
    if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS) || !is_paired())
      return stalled(Outcome::Kind::peer_is_silent);
    // Source: kernel drivers/infiniband/sw/rdmavt/qp.c, rvt_comm_est(): once, and not for UD.
    if (state == IBV_QPS_RTR && !is_datagram() && (target_.events.get() & was_established) == 0)
      raise_events(segment(), target_, bit_of(IBV_EVENT_COMM_EST) | was_established,
                   peer_.wake_pipes());
    if (auto const refusal = refusal_of(work_, target_); refusal != Fault::none)
      return refuse(IBV_WC_REM_INV_REQ_ERR, refusal);
    if (takes_receive(work_)) return receive();
    return is_atomic(work_.opcode) ? change_remote() : access_remote();
  }

 private:
  using Receive = TakenReceive<type>;
  using Receive::break_target;
  using Receive::can_tell;
  using Receive::finish_receive;
  using Receive::give_up_claim;
  using Receive::held_back;
  using Receive::held_back_by_queue;
  using Receive::is_claimed_;
  using Receive::is_datagram;
  using Receive::is_lost;
  using Receive::is_paired;
  using Receive::is_reliable;
  using Receive::lost;
  using Receive::lost_peer;
  using Receive::ours_;
  using Receive::peer_;
  using Receive::qp_;
  using Receive::reach;
  using Receive::receive_;
  using Receive::segment;
  using Receive::stalled;
  using Receive::target_;
  using Receive::work_;
  using typename Receive::Bytes;
  using typename Receive::Matched;

  Outcome receive() noexcept {
    // Of a sender that died. While it cannot be ended, nothing is received behind it.
    auto const claim = is_reliable() ? 0 : target_.claim.get();
    if (claim != 0 && claim != qp_.stall.claim && !give_up_claim()) return lost();
    bool was_refused = false;
    if (is_reliable() && qp_.offered != 0 && !this->take_back(was_refused)) [[unlikely]]
      return ended(IBV_WC_SUCCESS, Fault::none, qp_.offered_length);
    auto const matched = target_.pool.get() == 0 ? this->match() : this->match_in_pool();
    if (matched == Matched::corrupt) return break_target(IBV_WC_REM_OP_ERR, Fault::corrupt_target);
    if (matched == Matched::held) return held_back();
    if (matched == Matched::none) {
      if constexpr (is_reliable()) offer_message(qp_, work_, ours_, target_);
      return stalled(Outcome::Kind::receiver_not_ready);
    }
    if (work_.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) return write_and_deliver();

    auto const length = static_cast<std::uint32_t>(ours_.total);
    if (length > receive_->length.get()) {
      if (is_reliable()) finish_receive(IBV_WC_LOC_LEN_ERR, Fault::receive_too_short);
      return refuse(IBV_WC_REM_INV_REQ_ERR, Fault::receive_too_short);
    }
    auto const is_small = length <= SharedCompletion::own_max && !is_datagram();
    auto const answer = this->scatter_list(length, is_small, memory_);
    if (answer != Fault::none) return fail_receive(answer);
    if (!is_small) qp_.is_target_apart = !memory_.extents().all_mapped;
    auto const where = is_small ? Bytes::in_completion : this->place_apart(length, memory_);
    if (where == Bytes::placed) {
      auto const copied = move(Direction::to_peer, length);
      if (copied == Copied::our_fault) return fail_ours();
      if (is_lost(copied)) return lost_peer();
      if (copied != Copied::all) return fail_receive(Fault::unreachable_memory);
    }
    if (where == Bytes::without_room)
      return is_reliable() ? this->await_receiver(Outcome::Kind::no_room, 0)
                           : refuse(IBV_WC_SUCCESS, Fault::none);
    if (where == Bytes::left_to_receiver) return leave_to_receiver(length, was_refused);
    return deliver(length, where);
  }

  /// Only the receiver's process can copy the bytes: it learns where they are, and does that when
  /// it polls.
  [[gnu::noinline]] Outcome leave_to_receiver(std::uint32_t length, bool was_refused) noexcept {
    if (was_refused) return fail_receive(Fault::unreachable_memory);
    if (returns_window(work_) && !begin_return(segment(), work_.immediate, this->window_scope()))
      return fail_return(length);
    if (!is_reliable() || !offer_to_copy(qp_, work_, target_))
      return fail_receive(Fault::no_cross_memory);
    auto const outcome = this->await_receiver(Outcome::Kind::left_to_receiver, awaited_by_copy);
    if (outcome.kind() == Outcome::Kind::lock_is_held) (void)this->take_back(was_refused);
    return outcome;
  }

  /// WRITE with an immediate, whose receive was matched.
  [[gnu::noinline]] Outcome write_and_deliver() noexcept { return access_remote(); }
  /// WRITE and READ. Inline: most work on a reliable connection is this and nothing else.
  [[gnu::always_inline]] inline Outcome access_remote() noexcept {
    auto const length = static_cast<std::uint32_t>(ours_.total);
    auto const is_read = work_.opcode == IBV_WR_RDMA_READ;
    if (length > 0) {
      unsigned const access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
      KeyInUse const named{target_, work_.remote_key};
      auto const answer = this->bytes_of_target(memory_, length, access);
      if (answer != TargetMemory::Answer::granted) return out_of_reach(answer);
      auto const copied = move(is_read ? Direction::from_peer : Direction::to_peer, length);
      if (copied == Copied::our_fault) return fail_ours();
      if (is_lost(copied)) return lost_peer();
      if (copied != Copied::all) return refuse(IBV_WC_REM_OP_ERR, Fault::unreachable_memory);
    }
    if (receive_ != nullptr) return deliver(length, Bytes::placed);
    return ended(IBV_WC_SUCCESS, Fault::none, length);
  }

  /// Compare-and-swap, fetch-and-add. The key is checked before the alignment, as rxe does.
  [[gnu::always_inline]] inline Outcome change_remote() noexcept {
    std::uint64_t before = 0;
    auto const address = work_.remote_address;
    KeyInUse const named{target_, work_.remote_key};
    auto const answer = this->bytes_of_target(memory_, sizeof before, IBV_ACCESS_REMOTE_ATOMIC);
    if (answer == TargetMemory::Answer::denied) return out_of_reach(answer);
    if (address % sizeof before != 0) return refuse(IBV_WC_REM_INV_REQ_ERR, Fault::misaligned);
    if (answer != TargetMemory::Answer::granted) return out_of_reach(answer);
    auto& lock = segment().header.atomics;
    if (!lock.lock_in_time(qp_.owner().claimant)) return qp_.stall.lock = &lock, held_back();
    auto const changed = reach([&](int thread) {
      return change_atomically(work_, memory_.extents().items[0], thread, before);
    });
    lock.unlock();
    if (is_lost(changed)) return lost_peer();
    if (changed != Copied::all) return refuse(IBV_WC_REM_OP_ERR, Fault::unreachable_memory);
    scatter(before, ours_);
    return ended(IBV_WC_SUCCESS, Fault::none, sizeof before);
  }

  Outcome deliver(std::uint32_t length, Bytes where) noexcept {
    if (returns_window(work_)) [[unlikely]]
      if (!begin_return(segment(), work_.immediate, this->window_scope()))
        return fail_return(length);
    auto const pushed = this->complete(length, where);
    if (pushed == Pushed::yes) {
      if (returns_window(work_)) [[unlikely]]
        end_return(segment(), work_.immediate);
      return ended(IBV_WC_SUCCESS, Fault::none, length);
    }
    if (pushed == Pushed::held) return held_back_by_queue();
    if (pushed == Pushed::unheard || !can_tell()) return unheard();
    return break_target(IBV_WC_RETRY_EXC_ERR, Fault::queue_overrun);
  }

  /// What it returns was not lent to it: class J of rxe_resp.c, of which the requester hears
  /// nothing.
  [[gnu::noinline]] Outcome fail_return(std::uint32_t length) noexcept {
    finish_receive(IBV_WC_REM_INV_REQ_ERR, Fault::window);
    return break_target(IBV_WC_SUCCESS, Fault::none, length);
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
    return peer_.is_going() ? lost_peer() : refuse(IBV_WC_REM_OP_ERR, Fault::no_cross_memory);
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
  /// We could not map its memory, or its owner would sleep beside what we did: so we did nothing.
  Outcome unheard() noexcept {
    if (is_claimed_) (void)give_up_claim();
    return is_reliable() ? ended(IBV_WC_RETRY_EXC_ERR, Fault::no_descriptor) : lost();
  }

  Copied move(Direction direction, std::size_t length) noexcept {
    return reach(
        [&](int thread) { return transfer(direction, ours_, memory_.extents(), length, thread); });
  }

  TargetMemory memory_;
};

}  // namespace

Outcome respond(QueuePair& qp, Work const& work, Extents const& ours, Peer& peer,
                SharedQueuePair& target) noexcept {
  if (qp.qp_type == IBV_QPT_RC) [[likely]]
    return Responder<IBV_QPT_RC>{qp, work, ours, peer, target}.respond();
  return qp.qp_type == IBV_QPT_UC ? Responder<IBV_QPT_UC>{qp, work, ours, peer, target}.respond()
                                  : Responder<IBV_QPT_UD>{qp, work, ours, peer, target}.respond();
}

}  // namespace lend::soft
