// SPDX-License-Identifier: MIT OR Apache-2.0
// The bytes of a message from a bounce buffer to its receive, by the receive's owner.
#pragma once

#include <soft/memory/copy.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::soft {

/// Copies to the pieces of `receive`, which are of `pd`, as far as each is registered still: the
/// owner may have deregistered it meanwhile, and then it must not be touched.
inline void place_bytes(QueuePair const& qp, ibv_pd const& pd, PostedReceive& receive,
                        std::byte const* source, std::uint32_t length) noexcept {
  auto const& regions = qp.owner().regions;
  for (auto const& piece : std::span{receive.pieces(), receive.piece_count}) {
    auto const part = std::min(piece.length, length);
    if (regions.permits(piece.lkey, pd.handle, piece.addr, part, IBV_ACCESS_LOCAL_WRITE))
      copy_in_order(reinterpret_cast<std::byte*>(piece.addr), source, part);
    source += part;
    length -= part;
    if (length == 0) return;
  }
}

}  // namespace lend::soft
