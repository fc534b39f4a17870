// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives as they are written down, and the send queue between posting and executing.
#pragma once

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
    if (!reaches_all && !context.regions.is_mappable(given.lkey)) is_reachable = false;
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

/// Executes the work, or appends it to what waits. The caller holds send_lock.
void submit(QueuePair&, Work&) noexcept;
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
