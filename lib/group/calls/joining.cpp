// SPDX-License-Identifier: MIT OR Apache-2.0
// The meeting of a group's ranks. The thread of the group.
#include <base/giving_up.hpp>
#include <group/state/group_state.hpp>
#include <launch/desk_visit.hpp>
#include <lend/group/group.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lend {

namespace {

/// A connection by rdma_cm may come to nothing though both live: SoftiWARP of Linux 6.1 has been
/// seen to reset one that was accepted. Then all connect again, so often.
constexpr int connecting_again_max = 2;

/// One for each link.
std::vector<launch::Card> cards_of(PreparedGroup const& prepared, std::uint32_t rank,
                                   group::Neighbours const& neighbours) {
  std::vector<launch::Card> cards;
  auto const ours = prepared.cards();
  for (std::uint32_t to = 0; to < ours.size(); ++to)
    if (neighbours.are_linked(rank, to))
      cards.push_back({to, ours[to].endpoint, ours[to].record, ours[to].mailbox, ours[to].address});
  return cards;
}

/// In the order of members.
std::vector<RankCard> by_rank(launch::Proposal const& proposal) {
  auto const& ranks = proposal.members.ranks;
  std::vector<RankCard> cards(ranks.size());
  for (launch::Card const& card : proposal.cards) {
    auto const at = std::ranges::lower_bound(ranks, card.rank) - ranks.begin();
    cards[static_cast<std::size_t>(at)] = {card.endpoint, card.record, card.mailbox, card.address};
  }
  return cards;
}

}  // namespace

Result<Group> Group::join(ProtectionDomain const& domain, Seat const& seat, Deadline deadline,
                          GroupOptions const& options) {
  launch::Coming coming;
  return meet(domain, seat, deadline, options, coming);
}

Result<Group> Group::rejoin(Seat const& seat, Deadline deadline, Rejoin const& how) {
  using std::chrono::milliseconds;
  auto& history = state().history();
  if (state().is_inherited())
    return Error{Errc::system_failed, "the group was made before fork(): it is the parent's"};
  if (how.at_least > seat.size)
    return Error{Errc::invalid_argument, "at least " + std::to_string(how.at_least) + " of " +
                                             std::to_string(seat.size) + " ranks cannot be"};
  if (how.patience < milliseconds{0} || how.patience > std::chrono::days{30})
    return Error{Errc::invalid_argument, "the patience is 0 to 30 days"};
  // Links are prepared before it is known which seats stay empty, and so which numbers they get.
  if (group::Neighbours{seat.size, state().links().options().links}.are_few() &&
      how.at_least != 0 && how.at_least < seat.size)
    return Error{Errc::invalid_argument,
                 "ranks with few links rejoin when all " + std::to_string(seat.size) +
                     " have come, not " + std::to_string(how.at_least) +
                     ": make the group with GroupLinks::all to go on with fewer"};
  state().leave();
  launch::Coming coming{.generation = history.generation,
                        .seen = history.seen,
                        .finished = history.finished,
                        .at_least = how.at_least == 0 ? seat.size : how.at_least,
                        .patience_ms = static_cast<std::uint32_t>(
                            std::chrono::duration_cast<milliseconds>(how.patience).count())};
  auto group = meet(state().links().domain(), seat, deadline, state().links().options(), coming);
  history.seen = coming.seen;
  return group;
}

/// `coming` learns what the desk proposes.
Result<Group> Group::meet(ProtectionDomain const& domain, Seat const& seat, Deadline deadline,
                          GroupOptions const& options, launch::Coming& coming) {
  LEND_TRYV(launch::check(seat));
  LEND_TRY(first, PreparedGroup::prepare(domain, seat.rank, seat.size, options));
  auto const connect = [&coming, deadline](PreparedGroup prepared, launch::Proposal const& proposal,
                                           group::Sleep const& sleep) -> Result<Group> {
    auto const& [generation, finished_by_all, ranks] = proposal.members;
    coming.seen = std::max(coming.seen, generation);
    auto& state = *prepared.state_;
    if (state.links().neighbours().are_few() && ranks.size() != state.links().ranks().size)
      return Error{Errc::incompatible_peer, "the desk proposed fewer ranks than have links"};
    state.keep(ranks);
    state.history() = {
        .generation = generation, .seen = coming.seen, .finished_by_all = finished_by_all};
    LEND_TRYV(state.links().connect(by_rank(proposal), deadline, sleep));
    return Group{std::move(prepared.state_)};
  };
  if (seat.size == 1)
    return connect(std::move(first), {{coming.seen + 1, coming.finished, {0}}, {}}, {});
  group::Neighbours const neighbours{seat.size, options.links};
  LEND_TRY(meeting, launch::DeskVisit::sit(
                        seat, {options.message_bytes, options.window, neighbours.are_few()},
                        deadline, coming));
  bool is_over = false;  // or withdrawn, says the desk
  group::Sleep const sleep = [&](std::span<int const> descriptors, Deadline until) {
    auto slept = meeting.sleep_on(descriptors, until);
    is_over = !slept;
    return slept;
  };
  int tries_left = domain.context().capabilities().endpoints ? 0 : connecting_again_max;
  for (auto prepared = std::move(first);;) {
    LEND_TRY(proposal, meeting.swap(cards_of(prepared, seat.rank, neighbours)));
    if (proposal) {
      is_over = false;
      auto group = connect(std::move(prepared), *proposal, sleep);
      if (group) {
        LEND_TRY(are_all_connected, meeting.confirm());
        if (are_all_connected) return group;
        group.value().state_->end_silently();
      } else if (!meeting.begins_again("could not connect: " + group.error().message())) {
        if (is_over || tries_left-- == 0 || base::is_given_up(group.error())) return group;
        LEND_TRYV(meeting.sit_again());
      }
    }
    LEND_TRY(other, PreparedGroup::prepare(domain, seat.rank, seat.size, options));
    prepared = std::move(other);
  }
}

}  // namespace lend
