// SPDX-License-Identifier: MIT OR Apache-2.0
// Between the caller's values and the slots of the Relay: before the first round of a piece, and
// after its last. The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/state/ongoing_call.hpp>

#include <algorithm>

namespace lend::group {

void OngoingCall::reserve_relay(Membership const& team, Call const& call) {
  auto const piece = std::min(message_bytes_, call.block_bytes);
  blocks_per_message_ = piece == 0 ? team.ranks.size
                                   : static_cast<std::uint32_t>(std::max<std::size_t>(
                                         1, std::min<std::size_t>(message_bytes_ / piece, 65'536)));
  auto const slots = HopSchedule{call.collective, team.ranks, call.root, 1}.slots();
  relay_.reserve(slots, piece, message_bytes_);
}

void OngoingCall::begin_relay() noexcept {
  relay_.set_piece(piece_length({}));
  auto const size = team_->ranks.size;
  switch (call_.collective) {
    case Collective::gather:
    case Collective::allgather: copy_to_relay(0, 0); break;
    case Collective::scatter:
      if (team_->ranks.rank != call_.root) break;
      [[fallthrough]];
    default:
      for (std::uint32_t slot = 0; slot < size; ++slot) copy_to_relay(slot, ahead(slot));
  }
}

void OngoingCall::end_relay() noexcept {
  auto const [rank, size] = team_->ranks;
  switch (call_.collective) {
    case Collective::gather:
      if (rank != call_.root) break;
      [[fallthrough]];
    case Collective::allgather:
      for (std::uint32_t slot = 1; slot < size; ++slot) copy_from_relay(slot, ahead(slot));
      break;
    case Collective::scatter:
      if (rank != call_.root) copy_from_relay(0, 0);
      break;
    case Collective::all_to_all:
      for (std::uint32_t slot = 1; slot < size; ++slot) copy_from_relay(slot, behind(slot));
      break;
    default:  // reduce_scatter
      for (std::uint32_t from = 0; from < size; ++from)
        combine(Step::Kind::combine, relay_.slot(behind(from)));
  }
}

void OngoingCall::copy_to_relay(std::uint32_t slot, std::uint32_t block) noexcept {
  auto const piece = piece_of({.place = Step::Place::in, .block = block});
  base::copy_bytes(relay_.slot(slot).first(piece.size()), piece);
}

void OngoingCall::copy_from_relay(std::uint32_t slot, std::uint32_t block) noexcept {
  auto const place = place_of({.place = Step::Place::out, .block = block});
  base::copy_bytes(place, relay_.slot(slot).first(place.size()));
}

}  // namespace lend::group
