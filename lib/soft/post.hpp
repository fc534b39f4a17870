// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives as they are written down, and the send queue between posting and executing.
#pragma once

#include "engine.hpp"
#include "faults.hpp"
#include "host.hpp"
#include "queue_pair.hpp"
#include "reason.hpp"

#include <cerrno>
#include <span>

namespace lend::soft {

/// Describes a receive to its owner and to peers; it is not valid yet. 0 or errno.
[[nodiscard]] inline int write_receive(Context const& context, ibv_recv_wr const& wr,
                                       PostedReceive& kept, SharedReceive& shared) noexcept {
  auto const count = static_cast<std::uint32_t>(wr.num_sge);
  bool const reaches_all = context.peers_reach_private;
  bool is_reachable = true;
  std::uint64_t length = 0;
  auto* kept_piece = kept.pieces();
  auto* piece = static_cast<SharedPiece*>(shared.pieces);
  for (auto const& given : std::span{wr.sg_list, count}) {
    length += given.length;
    // Nobody looks at an empty piece, nor at its key.
    if (!reaches_all && given.length != 0 && !context.regions.is_mappable(given.lkey))
      is_reachable = false;
    *kept_piece++ = given;
    piece->address.set(given.addr);
    piece->length.set(given.length);
    piece->key.set(given.lkey);
    ++piece;
  }
  if (length > UINT32_MAX) return EINVAL;
  if (!is_reachable && length > SharedCompletion::inline_max)
    return fail(EOPNOTSUPP,
                "peers cannot reach private memory here (%s): receive into memory of the library's "
                "allocator",
                cross_memory().obstacle);
  kept.id = wr.wr_id;
  kept.piece_count = count;
  kept.length = static_cast<std::uint32_t>(length);
  shared.length.set(kept.length);
  shared.piece_count.set(count);
  return 0;
}

/// Each operation passes here once, in the order of posting.
inline void order_fault(QueuePair& qp, Work& work) noexcept {
  auto& faults = qp.owner().faults;
  if (faults.are_planned()) [[unlikely]]
    work.fault = faults.next_operation();
}
/// The work is the first that waits. False when its fault broke the queue pair before it.
[[nodiscard]] inline bool start(QueuePair& qp, Work const& work) noexcept {
  if (work.fault == nullptr) [[likely]]
    return true;
  strike(qp, *work.fault);
  return !qp.is_flushing;
}
/// Appends the work to what waits, or is to be flushed. The caller holds send_lock.
void defer(QueuePair&, Work const&) noexcept;
/// Executes the work, or defers it. The caller holds send_lock.
inline void submit(QueuePair& qp, Work& work) noexcept {
  order_fault(qp, work);
  if (!qp.is_flushing && qp.stall.why == Stall::Why::none && start(qp, work) && try_once(qp, work))
    return;
  defer(qp, work);
}
/// Makes the next `count` slots behind the tail work that waits, and executes what can be. The
/// caller holds send_lock.
void adopt_pending(QueuePair&, std::uint32_t count) noexcept;
/// Executes what waits, as far as it goes. The caller holds send_lock.
void retry_pending(QueuePair&) noexcept;

/// In SQD only what had started goes on; says so when that is over. The caller holds send_lock.
void hold_sends(QueuePair&) noexcept;
/// Out of SQD again. The caller holds send_lock.
void resume_sends(QueuePair&) noexcept;

}  // namespace lend::soft
