// SPDX-License-Identifier: MIT OR Apache-2.0
// Between the caller's values and the slots of the Relay. The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/state/relayed_piece.hpp>

#include <algorithm>

namespace lend::group {

void RelayedPiece::reserve(Membership const& team, Call const& call, std::size_t message_bytes) {
  auto const piece = std::min(message_bytes, call.block_bytes);
  blocks_per_message_ = piece == 0 ? team.ranks.size
                                   : static_cast<std::uint32_t>(std::max<std::size_t>(
                                         1, std::min<std::size_t>(message_bytes / piece, 65'536)));
  auto const slots = HopSchedule{call.collective, team.ranks, call.root, 1}.slots();
  relay_.reserve(slots, piece, message_bytes);
}

void RelayedPiece::begin(Call const& call, Ranks ranks, ByteRange piece) noexcept {
  call_ = &call;
  ranks_ = ranks;
  piece_ = piece;
  relay_.set_piece(piece.length);
  auto const& layout = call.layout();
  if (layout.in == Parts::own)
    copy_in(0, 0);
  else if (layout.has(layout.in, ranks.rank == call.root))
    for (std::uint32_t slot = 0; slot < ranks.size; ++slot) copy_in(slot, ahead(slot));
}

void RelayedPiece::end() noexcept {
  auto const& layout = call_->layout();
  if (!layout.gets(ranks_.rank == call_->root)) return;
  if (layout.out == Parts::own) return copy_out(0, 0);
  for (std::uint32_t slot = 1; slot < ranks_.size; ++slot)
    copy_out(slot, layout.in == Parts::own ? ahead(slot) : behind(slot));
}

void RelayedPiece::copy_in(std::uint32_t slot, std::uint32_t block) noexcept {
  base::copy_bytes(relay_.slot(slot), call_->in.subspan(offset_of(block), piece_.length));
}

void RelayedPiece::copy_out(std::uint32_t slot, std::uint32_t block) noexcept {
  base::copy_bytes(call_->out.subspan(offset_of(block), piece_.length), relay_.slot(slot));
}

}  // namespace lend::group
