// SPDX-License-Identifier: MIT OR Apache-2.0
// The meeting of a group's ranks. The thread of the group.
#include <group/group_state.hpp>
#include <lend/group/group.hpp>
#include <network/desk_visit.hpp>

#include <utility>
#include <vector>

namespace lend {

namespace {

std::vector<network::Card> cards_of(PreparedGroup const& prepared, std::uint32_t rank) {
  std::vector<network::Card> cards;
  auto const ours = prepared.cards();
  for (std::uint32_t to = 0; to < ours.size(); ++to)
    if (to != rank) cards.push_back({to, ours[to].endpoint, ours[to].record});
  return cards;
}

}  // namespace

Result<Group> Group::join(ProtectionDomain const& domain, Seat const& seat, Deadline deadline,
                          GroupOptions const& options) {
  LEND_TRYV(network::check(seat));
  LEND_TRY(first, PreparedGroup::prepare(domain, seat.rank, seat.size, options));
  if (seat.size == 1) return std::move(first).handshake(std::vector<RankCard>(1));
  LEND_TRY(meeting,
           network::DeskVisit::sit(seat, {options.message_bytes, options.window}, deadline));
  for (auto prepared = std::move(first);;) {
    LEND_TRY(theirs, meeting.swap(cards_of(prepared, seat.rank)));
    if (theirs) {
      std::vector<RankCard> by_rank(seat.size);
      for (network::Card const& card : *theirs) by_rank[card.rank] = {card.endpoint, card.record};
      auto group = std::move(prepared).handshake(by_rank);
      if (group) {
        LEND_TRY(are_all_connected, meeting.confirm());
        if (are_all_connected) return group;
        group.value().state_->end_silently();
      } else if (!meeting.begins_again("could not connect: " + group.error().message())) {
        return group;
      }
    }
    LEND_TRY(other, PreparedGroup::prepare(domain, seat.rank, seat.size, options));
    prepared = std::move(other);
  }
}

}  // namespace lend
