// SPDX-License-Identifier: MIT OR Apache-2.0
// One request at its target: who asks, what for, and how it ends where the target cannot be told.
#pragma once

#include <soft/engine/responder.hpp>
#include <soft/memory/copy.hpp>
#include <soft/memory/reach.hpp>
#include <soft/segment/event_marks.hpp>
#include <soft/segment/window_scope.hpp>

#include <type_traits>

namespace lend::soft {

/// Says in the target's queue pair which of its keys a request uses, before the key is looked up: a
/// call that deregisters it either sees the name or has made the key invalid before. Pairs with
/// may_name() in domain.cpp.
class KeyInUse {
 public:
  KeyInUse(SharedQueuePair& target, std::uint32_t key) noexcept : target_{target} {
    target_.remote_key.store(key, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the other side has the barrier
  }
  // Release pairs with the acquire there: the bytes were written before.
  ~KeyInUse() { target_.remote_key.store(0, std::memory_order_release); }
  KeyInUse(KeyInUse const&) = delete;
  KeyInUse& operator=(KeyInUse const&) = delete;

 private:
  SharedQueuePair& target_;
};

/// A template, so that a reliable connection pays nothing for the other types. The caller holds rx
/// of the target.
template <ibv_qp_type type>
class RequestAtTarget {
 protected:
  RequestAtTarget(QueuePair& qp, Work const& work, Extents const& ours, Peer& peer,
                  SharedQueuePair& target) noexcept
      : qp_{qp}, work_{work}, ours_{ours}, peer_{peer}, target_{target} {}

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

  template <class Attempt>
  Copied reach(Attempt attempt) noexcept {
    return reach_by_any_thread(peer_, attempt);
  }

  std::uint32_t window_scope() const noexcept { return window_scope_of(target_, number()); }
  /// The bytes that the request names: by the key of a region of the target's domain, or of a
  /// window that the target has bound.
  [[gnu::always_inline]] inline TargetMemory::Answer bytes_of_target(
      TargetMemory& memory, std::uint32_t length, unsigned access) const noexcept {
    auto const key = work_.remote_key;
    auto const address = work_.remote_address;
    auto const answer = memory.add(key, target_.domain.get(), address, length, access);
    if (answer != TargetMemory::Answer::denied) [[likely]]
      return answer;
    return memory.add_by_window(key, window_scope(), address, length, access);
  }

  std::uint32_t last_receive() const noexcept {
    return target_.pool.get() != 0 ? bit_of(IBV_EVENT_QP_LAST_WQE_REACHED) : 0;
  }

  /// The target is not ready for this: the requester waits, or the message is lost.
  Outcome stalled(Outcome::Kind kind) const noexcept {
    if (!is_reliable()) return lost();
    return kind == Outcome::Kind::peer_is_silent
               ? Outcome{kind, 0, Fault::peer_is_silent, IBV_WC_RETRY_EXC_ERR, 0}
               : Outcome{kind, target_.rnr_timer.get(), Fault::receiver_not_ready,
                         IBV_WC_RNR_RETRY_EXC_ERR, 0};
  }
  Outcome lost() const noexcept {
    return ended(IBV_WC_SUCCESS, Fault::none, static_cast<std::uint32_t>(ours_.total));
  }

  /// A dying peer's memory faults before its process is gone.
  bool is_lost(Copied copied) const noexcept { return copied != Copied::all && peer_.is_going(); }

  Outcome lost_peer() noexcept {
    peer_.mark_dead();
    return is_reliable() ? ended(IBV_WC_RETRY_EXC_ERR, Fault::peer_is_dead) : lost();
  }

  /// Whether its owner can be woken for what breaking it does; connections saw to that when made.
  bool can_tell() noexcept {
    if constexpr (is_datagram())
      return wake_pipes_.hold(peer_.wake_pipes(), segment(), target_) == 0;
    return true;
  }
  QueuePair& qp_;
  Work const& work_;
  Extents const& ours_;
  Peer& peer_;
  SharedQueuePair& target_;
  struct Nothing {};  // but for datagrams, whose wake pipes are held when something must be told
  [[no_unique_address]] std::conditional_t<type == IBV_QPT_UD, HeldWakePipes, Nothing> wake_pipes_;
};

}  // namespace lend::soft
