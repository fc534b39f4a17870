// SPDX-License-Identifier: MIT OR Apache-2.0
// The responder: what the target's card would do with one request. Run by the poster's CPU.
#pragma once

#include "engine.hpp"
#include "stretch.hpp"

namespace lend::soft {

[[nodiscard]] inline Outcome ended(ibv_wc_status status, Fault fault,
                                   std::uint32_t length = 0) noexcept {
  return {Outcome::Kind::done, 0, status, fault, length};
}

[[nodiscard]] inline bool is_send(Work const& work) noexcept {
  return work.opcode == IBV_WR_SEND || work.opcode == IBV_WR_SEND_WITH_IMM;
}
[[nodiscard]] inline bool takes_receive(Work const& work) noexcept {
  return is_send(work) || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
[[nodiscard]] inline bool has_immediate(Work const& work) noexcept {
  return work.opcode == IBV_WR_SEND_WITH_IMM || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
/// Its pieces are written, not read.
[[nodiscard]] inline bool brings_bytes(Work const& work) noexcept {
  return work.opcode == IBV_WR_RDMA_READ || is_atomic(work.opcode);
}

/// Executes at qp.target, whose rx lock the caller holds. `ours` are the pieces of `work`, checked.
[[nodiscard]] Outcome respond(QueuePair& qp, Work const& work, Stretches const& ours) noexcept;

}  // namespace lend::soft
