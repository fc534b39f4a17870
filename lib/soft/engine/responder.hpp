// SPDX-License-Identifier: MIT OR Apache-2.0
// The responder: what the target's card would do with one request. Run by the poster's CPU.
#pragma once

#include <soft/engine/engine.hpp>
#include <soft/memory/extent.hpp>

#include <span>

namespace lend::soft {

[[nodiscard]] inline Outcome ended(ibv_wc_status status, Fault fault,
                                   std::uint32_t length = 0) noexcept {
  return {Outcome::Kind::done, 0, fault, status, length};
}

[[nodiscard]] inline bool is_send(Work const& work) noexcept {
  constexpr unsigned sends =
      1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_SEND_WITH_INV;
  return (sends >> work.opcode & 1) != 0;
}
[[nodiscard]] inline bool takes_receive(Work const& work) noexcept {
  return is_send(work) || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
[[nodiscard]] inline bool has_immediate(Work const& work) noexcept {
  return work.opcode == IBV_WR_SEND_WITH_IMM || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
/// The send ends a memory window of its target.
[[nodiscard]] inline bool returns_window(Work const& work) noexcept {
  return work.opcode == IBV_WR_SEND_WITH_INV;
}
/// The poster's side of the work: keys, bounds, the right to write where it brings bytes. False: a
/// piece is bad.
[[nodiscard]] inline bool gather(QueuePair const& qp, Work const& work, bool brings,
                                 Extents& ours) noexcept {
  auto const& regions = qp.owner().regions;
  unsigned const access = brings ? IBV_ACCESS_LOCAL_WRITE : 0;
  for (auto const& piece : std::span{work.pieces, work.piece_count}) {
    if (piece.length == 0) continue;
    if (!work.is_inline() &&
        !regions.permits(piece.lkey, qp.pd->handle, piece.addr, piece.length, access))
      return false;
    ours.add(reinterpret_cast<std::byte*>(piece.addr), piece.length);
  }
  return true;
}

/// Whether the target's queue pair serves such an operation at all.
[[nodiscard]] inline Fault refusal_of(Work const& work, SharedQueuePair const& target) noexcept {
  if (is_send(work)) return Fault::none;
  auto const access = target.access.get();
  if (brings_bytes(work)) {
    unsigned const right =
        is_atomic(work.opcode) ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_READ;
    if ((access & right) == 0) return Fault::operation_forbidden;
    return target.reads_max.get() == 0 ? Fault::no_reads_allowed : Fault::none;
  }
  return (access & IBV_ACCESS_REMOTE_WRITE) == 0 ? Fault::operation_forbidden : Fault::none;
}

/// What becomes of work that would need `lock` of the target's segment, which did not come free:
/// it waits, and is tried again. The caller holds send_lock.
[[nodiscard]] Outcome held_back(QueuePair&, RobustLock const& lock, std::uint64_t length) noexcept;
/// Before that, of work that took a receive: of a shared queue it stays taken, for this work when
/// it is tried again.
void keep_claim(QueuePair&, SharedQueuePair& target) noexcept;

/// Executes at the target, a queue pair of the peer's, whose rx lock the caller holds. `ours` are
/// the pieces of `work`, checked; before those of a datagram goes its header.
///
/// On a reliable connection a fault is answered. Otherwise the message is lost and the sender told
/// of success; a fault of the target's own receive or completion queue still breaks the target.
/// Source: kernel drivers/infiniband/sw/rxe/rxe_resp.c, the classes of errors at its end.
[[nodiscard]] Outcome respond(QueuePair& qp, Work const& work, Extents const& ours, Peer&,
                              SharedQueuePair& target) noexcept;

}  // namespace lend::soft
