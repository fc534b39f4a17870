// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives as they are written down, and the send queue between posting and executing.
#pragma once

#include "queue_pair.hpp"
#include "reason.hpp"

#include <cerrno>

namespace lend::soft {

/// Describes a receive to its owner and to peers; it is not valid yet. 0 or errno.
[[nodiscard]] inline int write_receive(Context const& context, ibv_recv_wr const& wr,
                                       PostedReceive& kept, SharedReceive& shared) noexcept {
  auto const count = static_cast<std::uint32_t>(wr.num_sge);
  std::uint64_t length = 0;
  bool is_reachable = true;
  for (std::uint32_t i = 0; i < count; ++i) {
    length += wr.sg_list[i].length;
    if (!context.peers_reach_private && !context.regions.is_mappable(wr.sg_list[i].lkey))
      is_reachable = false;
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
  auto* piece = static_cast<SharedPiece*>(shared.pieces);
  for (std::uint32_t i = 0; i < count; ++i, ++piece) {
    kept.pieces()[i] = wr.sg_list[i];
    piece->address.set(wr.sg_list[i].addr);
    piece->length.set(wr.sg_list[i].length);
    piece->key.set(wr.sg_list[i].lkey);
  }
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
