// SPDX-License-Identifier: MIT OR Apache-2.0
// One work request from check to completion at the target.
//
// The order of checks at the target: operation allowed, receive posted, length, keys; as a
// responder does. Source: kernel drivers/infiniband/sw/rxe/rxe_resp.c; statuses: InfiniBand
// Architecture Specification vol. 1, 9.7.5 and 11.6.2.
#include "engine.hpp"

#include "copy.hpp"
#include "reach.hpp"

#include <algorithm>
#include <cstring>

namespace lend::soft {
namespace {

Outcome ended(ibv_wc_status status, Fault fault, std::uint32_t length = 0) noexcept {
  return {Outcome::Kind::done, 0, status, fault, length};
}

/// Our side: keys, bounds, length.
bool gather(QueuePair const& qp, Work const& work, Stretches& ours) noexcept {
  auto const& regions = qp.owner().regions;
  unsigned const access = work.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
  for (std::uint32_t i = 0; i < work.piece_count; ++i) {
    auto const& piece = work.pieces[i];
    if (piece.length == 0) continue;
    if (!work.is_inline &&
        !regions.permits(piece.lkey, qp.pd->handle, piece.addr, piece.length, access))
      return false;
    ours.add(reinterpret_cast<std::byte*>(piece.addr), piece.addr, piece.length);
  }
  return true;
}

bool takes_receive(Work const& work) noexcept {
  return work.opcode == IBV_WR_SEND || work.opcode == IBV_WR_SEND_WITH_IMM ||
         work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool has_immediate(Work const& work) noexcept {
  return work.opcode == IBV_WR_SEND_WITH_IMM || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool is_send(Work const& work) noexcept {
  return work.opcode == IBV_WR_SEND || work.opcode == IBV_WR_SEND_WITH_IMM;
}

/// The target's receive ring as it describes it now, bounds-checked; null when that is nonsense.
struct ReceiveRing {
  std::byte* base;
  std::uint64_t mask;
  std::uint32_t stride;

  [[nodiscard]] SharedReceive& at(std::uint64_t position) const noexcept {
    return *reinterpret_cast<SharedReceive*>(base + (position & mask) * stride);
  }
  [[nodiscard]] std::uint32_t pieces() const noexcept {
    return std::min(pieces_max, (stride - 16) / 16);
  }
};

ReceiveRing receive_ring_of(Segment& segment, SharedQueuePair const& target) noexcept {
  std::uint64_t const mask = target.ring_mask.get();
  std::uint32_t const stride = target.ring_stride.get();
  if (stride < cache_line || stride % cache_line != 0) return {nullptr, 0, 0};
  return {ring_at(segment, target.ring_offset.get(), mask + 1, stride), mask, stride};
}

/// The responder: one request against one target queue pair, whose rx lock is held throughout.
class Responder {
 public:
  Responder(QueuePair& qp, Work const& work, Stretches const& ours) noexcept
      : qp_{qp},
        work_{work},
        ours_{ours},
        peer_{*qp.peer},
        segment_{peer_.segment()},
        target_{*qp.target},
        memory_{peer_, qp.owner().regions} {}

  Outcome respond() noexcept {
    // Acquire pairs with modify_qp: what RTR set is there.
    auto const state = target_.state.load(std::memory_order_acquire);
    if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS) || !is_paired())
      return {Outcome::Kind::peer_is_silent, 0, IBV_WC_RETRY_EXC_ERR, Fault::peer_is_silent, 0};
    if (auto const refusal = check_operation(); refusal != Fault::none)
      return refuse(IBV_WC_REM_INV_REQ_ERR, refusal);
    if (takes_receive(work_)) return receive();
    return access_remote(nullptr);
  }

 private:
  bool is_paired() const noexcept {
    return target_.remote_number.get() == qp_.qp_num &&
           target_.remote_instance.get() == qp_.owner().claimant.instance &&
           target_.receive_psn.get() == qp_.attributes.sq_psn;
  }

  Fault check_operation() const noexcept {
    if (is_send(work_)) return Fault::none;
    auto const access = target_.access.get();
    if (work_.opcode == IBV_WR_RDMA_READ) {
      if ((access & IBV_ACCESS_REMOTE_READ) == 0) return Fault::operation_forbidden;
      return target_.reads_max.get() == 0 ? Fault::no_reads_allowed : Fault::none;
    }
    return (access & IBV_ACCESS_REMOTE_WRITE) == 0 ? Fault::operation_forbidden : Fault::none;
  }

  Outcome receive() noexcept {
    auto const ring = receive_ring_of(segment_, target_);
    if (ring.base == nullptr) return refuse(IBV_WC_REM_OP_ERR, Fault::corrupt_target);
    position_ = target_.receive_tail.load(std::memory_order_relaxed);
    auto const& posted = ring.at(position_);
    qp_.next_receive.store(&ring.at(position_ + 1), std::memory_order_relaxed);
    // Acquire pairs with the release in post_recv.
    if (posted.sequence.load(std::memory_order_acquire) != position_ + 1)
      return {Outcome::Kind::receiver_not_ready, target_.rnr_timer.get(), IBV_WC_RNR_RETRY_EXC_ERR,
              Fault::receiver_not_ready, 0};
    if (work_.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) return access_remote(&posted);

    auto const length = static_cast<std::uint32_t>(ours_.total);
    if (length > posted.length.get()) {
      finish_receive(IBV_WC_LOC_LEN_ERR, Fault::receive_too_short);
      return refuse(IBV_WC_REM_INV_REQ_ERR, Fault::receive_too_short);
    }
    auto const is_small = length <= SharedCompletion::inline_max;
    auto const answer = scatter_list(posted, ring.pieces(), length, is_small);
    if (answer == Fault::unreachable_memory && peer_.is_going()) return lost_peer();
    if (answer != Fault::none) {
      finish_receive(IBV_WC_LOC_PROT_ERR, answer);
      return refuse(IBV_WC_REM_OP_ERR, answer);
    }
    if (!is_small) {
      auto const copied =
          transfer(Direction::to_peer, ours_, memory_.stretches(), length, peer_.pid());
      if (is_lost(copied)) return lost_peer();
      if (copied == Copied::fault) {
        finish_receive(IBV_WC_LOC_PROT_ERR, Fault::unreachable_memory);
        return refuse(IBV_WC_REM_OP_ERR, Fault::unreachable_memory);
      }
    }
    return deliver(length, is_small);
  }

  /// Where the receive's pieces take the first `length` bytes.
  Fault scatter_list(SharedReceive const& posted, std::uint32_t pieces_limit, std::uint32_t length,
                     bool only_check) noexcept {
    auto const count = posted.piece_count.get();
    if (count > pieces_limit) return Fault::corrupt_target;
    auto const domain = target_.domain.get();
    // The pieces lie one after another, beyond the three of the first line too.
    auto const* piece = static_cast<SharedPiece const*>(posted.pieces);
    auto left = length;
    for (std::uint32_t i = 0; i < count && left > 0; ++i, ++piece) {
      auto const size = piece->length.get();
      if (size == 0) continue;
      auto const part = std::min(size, left);
      auto const key = piece->key.get();
      auto const address = piece->address.get();
      auto const answer = only_check
                              ? memory_.check(key, domain, address, part, IBV_ACCESS_LOCAL_WRITE)
                              : memory_.add(key, domain, address, part, IBV_ACCESS_LOCAL_WRITE);
      if (answer == TargetMemory::Answer::denied) return Fault::receive_key;
      if (answer == TargetMemory::Answer::unreachable) return Fault::unreachable_memory;
      left -= part;
    }
    return left == 0 ? Fault::none : Fault::corrupt_target;
  }

  /// WRITE and READ; `posted` is the receive that an immediate takes.
  Outcome access_remote(SharedReceive const* posted) noexcept {
    auto const length = static_cast<std::uint32_t>(ours_.total);
    auto const is_read = work_.opcode == IBV_WR_RDMA_READ;
    if (length > 0) {
      unsigned const access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
      auto const answer =
          memory_.add(work_.remote_key, target_.domain.get(), work_.remote_address, length, access);
      if (answer == TargetMemory::Answer::denied)
        return refuse(IBV_WC_REM_ACCESS_ERR, Fault::remote_key);
      if (answer == TargetMemory::Answer::unreachable)
        return peer_.is_going() ? lost_peer()
                                : refuse(IBV_WC_REM_OP_ERR, Fault::unreachable_memory);
      auto const copied = transfer(is_read ? Direction::from_peer : Direction::to_peer, ours_,
                                   memory_.stretches(), length, peer_.pid());
      if (is_lost(copied)) return lost_peer();
      if (copied == Copied::fault) return refuse(IBV_WC_REM_OP_ERR, Fault::unreachable_memory);
    }
    if (posted != nullptr) return deliver(length, false);
    return ended(IBV_WC_SUCCESS, Fault::none, length);
  }

  Outcome deliver(std::uint32_t length, bool carries_bytes) noexcept {
    ReceiveEnd end;  // not initialised as a whole: 72 bytes for every message
    end.length = length;
    end.immediate = work_.immediate;
    end.status = IBV_WC_SUCCESS;
    end.opcode = is_send(work_) ? 0 : 1;
    end.flags = has_immediate(work_) ? IBV_WC_WITH_IMM : 0;
    end.inline_length = 0;
    if (carries_bytes) {
      end.inline_length = static_cast<std::uint8_t>(length);
      auto* at = reinterpret_cast<std::byte*>(end.bytes);
      for (std::uint32_t i = 0; i < ours_.count; ++i) {
        std::memcpy(at, ours_.items[i].mapped, ours_.items[i].length);
        at += ours_.items[i].length;
      }
    }
    if (push(end) == Pushed::yes) return ended(IBV_WC_SUCCESS, Fault::none, length);
    return refuse(IBV_WC_RETRY_EXC_ERR, Fault::queue_overrun);
  }

  void finish_receive(ibv_wc_status status, Fault fault) noexcept {
    ReceiveEnd end;
    end.length = 0;
    end.immediate = static_cast<std::uint32_t>(fault);
    end.status = static_cast<std::uint8_t>(status);
    end.opcode = 0;
    end.flags = 0;
    end.inline_length = 0;
    (void)push(end);  // an overrun is no worse than the error itself
  }

  Pushed push(ReceiveEnd& end) noexcept {
    end.queue_pair = qp_.attributes.dest_qp_num & (queue_pairs_max - 1);
    end.epoch = target_.epoch.get();
    end.receive = static_cast<std::uint32_t>(position_);
    auto const pushed =
        push_receive_end(segment_, target_.completion_queue.get(), end, qp_.owner().claimant);
    // After the completion: should we die in between, nobody matches this receive again, for we
    // were its only sender.
    if (pushed == Pushed::yes) target_.receive_tail.store(position_ + 1, std::memory_order_relaxed);
    return pushed;
  }

  /// A remote error breaks the target too.
  Outcome refuse(ibv_wc_status status, Fault fault) noexcept {
    target_.state.store(IBV_QPS_ERR, std::memory_order_release);
    // Release pairs with the acquire in the owner's poll_cq, which then looks at the state.
    segment_.header.trouble.fetch_add(1, std::memory_order_release);
    return ended(status, fault);
  }

  /// A dying peer's memory faults before its process is gone.
  bool is_lost(Copied copied) const noexcept {
    return copied == Copied::peer_is_dead || (copied == Copied::fault && peer_.is_going());
  }

  Outcome lost_peer() noexcept {
    peer_.mark_dead();
    return ended(IBV_WC_RETRY_EXC_ERR, Fault::peer_is_dead);
  }

  QueuePair& qp_;
  Work const& work_;
  Stretches const& ours_;
  Peer& peer_;
  Segment& segment_;
  SharedQueuePair& target_;
  TargetMemory memory_;
  std::uint64_t position_ = 0;
};

}  // namespace

Outcome execute(QueuePair& qp, Work const& work) noexcept {
  Stretches ours;
  if (!gather(qp, work, ours)) return ended(IBV_WC_LOC_PROT_ERR, Fault::local_key);
  if (ours.total > message_bytes_max) return ended(IBV_WC_LOC_LEN_ERR, Fault::message_too_long);
  if (work.opcode == IBV_WR_RDMA_READ && qp.attributes.max_rd_atomic == 0)
    return ended(IBV_WC_LOC_QP_OP_ERR, Fault::no_reads_allowed);
  if (qp.peer->is_dead()) return ended(IBV_WC_RETRY_EXC_ERR, Fault::peer_is_dead);
  RobustGuard const guard{qp.target->rx, qp.owner().claimant};
  return Responder{qp, work, ours}.respond();
}

bool is_worth_another_try(QueuePair const& qp, Work const& work) noexcept {
  if (qp.peer->is_dead()) return true;
  auto const& target = *qp.target;
  auto const state = target.state.load(std::memory_order_relaxed);
  if (state != IBV_QPS_RTR && state != IBV_QPS_RTS) return false;
  if (qp.stall.why == Stall::Why::peer_is_silent || !takes_receive(work)) return true;
  auto const ring = receive_ring_of(qp.peer->segment(), target);
  if (ring.base == nullptr) return true;
  auto const position = target.receive_tail.load(std::memory_order_relaxed);
  return ring.at(position).sequence.load(std::memory_order_relaxed) == position + 1;
}

}  // namespace lend::soft
