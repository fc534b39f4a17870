// SPDX-License-Identifier: MIT OR Apache-2.0
// The shortest form of the short way, for requests of 8 bytes that nothing is unusual about. It
// calls no function, so that all it needs stays in registers.
#pragma once

#include <soft/engine/direct.hpp>

namespace lend::soft {

/// How far a word came.
/// left: nothing was done.
/// locked: as where execute_directly() returns false, but the target's rx is held.
/// untold: it is executed and counted, and its end is not told.
/// awaited: the same, and rx was released without waking the thread that waits for it.
enum class WordWas : std::uint8_t { done, left, locked, untold, awaited };

/// A send or write of one piece of 8 bytes, without an immediate.
[[nodiscard]] inline bool is_word(ibv_send_wr const& wr) noexcept {
  return (wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_SEND) && wr.num_sge == 1 &&
         wr.sg_list->length == word_bytes;
}

/// Executes a word as execute_directly() does, if all about it is usual. The caller holds
/// send_lock, and has checked that the queue pair `is_direct` and its peer is alive. `is_self`: of
/// the peer.
template <ibv_wr_opcode opcode>
[[nodiscard, gnu::always_inline]] inline WordWas execute_word(QueuePair& qp, ibv_send_wr const& wr,
                                                              bool is_self) noexcept {
  static_assert(opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_SEND);
  auto const position = qp.send_posted;
  // Acquire pairs with poll_cq: a freed slot is read no more.
  auto const outstanding = position - qp.send_freed.load(std::memory_order_acquire);
  auto& context = qp.owner();
  auto& target = *qp.target;
  auto& known = *qp.known;
  if (!direct::may_start<direct::Source::posted>(qp, wr, word_bytes, outstanding) ||
      !target.rx.try_lock(context.claimant))
    return WordWas::left;
  direct::Reached const to{qp, context, *qp.peer, known, target, wr, opcode, word_bytes, is_self};
  if (direct::reach_target<direct::Rare::left>(to, outstanding) != direct::Reach::done) [[unlikely]]
    return WordWas::locked;
  qp.send_posted = position + 1;
  if (!target.rx.unlock_quietly()) [[unlikely]]
    return WordWas::awaited;
  return !direct::is_signaled(qp, wr) ||
                 push_plain_local(qp.sends(), direct::end_of(qp, wr, opcode, word_bytes, position))
             ? WordWas::done
             : WordWas::untold;
}

}  // namespace lend::soft
