// SPDX-License-Identifier: MIT OR Apache-2.0
// How channels to peers are made, and their calls. The thread of the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/state/peers_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/channel/wait_many.hpp>
#include <lend/group/peers.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lend {

using group::GroupState;
using group::PeerLinkCard;
using group::PeersState;

namespace {

/// What one member tells another.
struct PeerCard {
  std::array<std::byte, Endpoint::encoded_size> endpoint{};  // zeros: not named
};

/// Of two ranks, of which one names the other alone; as one number, so that all find the same.
constexpr std::uint64_t all_agree = UINT64_MAX;
constexpr std::uint64_t one_sided(std::uint32_t names, std::uint32_t other) noexcept {
  return std::uint64_t{names} << 32 | other;
}

/// The members' errors as one: the own one, or that of another member.
struct CommonError {
  std::optional<Error> error;
};

/// Errors:  those of Team::allreduce(): they did not agree.
Result<CommonError> common_error(Team& team, Result<void> const& own, Deadline deadline) noexcept {
  auto const code = own.has_error() ? static_cast<std::uint32_t>(own.error().code()) : 0;
  LEND_TRY(worst,
           team.allreduce(max_at<std::uint32_t>, At<std::uint32_t>{code, team.rank()}, deadline));
  if (own.has_error()) return CommonError{own.error()};
  if (worst.value == 0) return CommonError{};
  return CommonError{Error{static_cast<Errc>(worst.value),
                           "rank " + std::to_string(team.members()[worst.rank]) +
                               " cannot connect to its peers; its own error says why"}};
}

Result<void> agree_on(Team& team, Result<void> const& own, Deadline deadline) noexcept {
  LEND_TRY(common, common_error(team, own, deadline));
  if (common.error) return *common.error;
  return success();
}

/// By the group's connector. A connection may come to nothing though both ranks live, as those of a
/// group: then all connect again, so often.
constexpr int peers_again_max = 2;

Result<void> connect_by_connector(Team& team, PeersState& state, PeerOptions const& options,
                                  Deadline deadline) {
  auto const members = team.members();
  std::vector<PeerLinkCard> ours(members.size()), theirs(members.size()),
      of_peers(state.ranks().size());
  auto const place_in_team = [&](std::uint32_t rank) {
    return static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
  };
  for (int tries_left = peers_again_max;; --tries_left) {
    for (std::size_t i = 0; i < of_peers.size(); ++i)
      ours[place_in_team(state.ranks()[i])] = state.linking()->card(i);
    LEND_TRYV(team.all_to_all(ours, theirs, deadline));
    for (std::size_t i = 0; i < of_peers.size(); ++i)
      of_peers[i] = theirs[place_in_team(state.ranks()[i])];
    auto const own = state.connect_all(of_peers, deadline);
    if (own.has_error() && base::is_given_up(own.error())) return own;
    LEND_TRY(common, common_error(team, own, deadline));
    if (!common.error) return success();
    if (tries_left == 0) return *common.error;
    LEND_TRYV(agree_on(team, state.prepare(options), deadline));
  }
}

Result<void> meet(Team& team, PeersState& state, PeerOptions const& options,
                  Result<void> const& prepared, Deadline deadline) {
  LEND_TRYV(agree_on(team, prepared, deadline));
  auto const members = team.members();
  auto const own = members[team.rank()];
  std::vector<PeerCard> ours(members.size()), theirs(members.size());
  auto const is_peer = [&](std::uint32_t rank) {
    return std::ranges::binary_search(state.ranks(), rank);
  };
  for (std::size_t i = 0; i < members.size(); ++i) {
    auto const place = std::ranges::lower_bound(state.ranks(), members[i]) - state.ranks().begin();
    if (is_peer(members[i]))
      ours[i].endpoint = state.prepared()[static_cast<std::size_t>(place)].endpoint().encode();
  }
  LEND_TRYV(team.all_to_all(ours, theirs, deadline));

  auto found = all_agree;
  for (std::size_t i = 0; i < members.size(); ++i) {
    bool const names_this = theirs[i].endpoint != PeerCard{}.endpoint;
    if (names_this == is_peer(members[i])) continue;
    found = std::min(found, names_this ? one_sided(members[i], own) : one_sided(own, members[i]));
  }
  LEND_TRY(pair, team.allreduce(min<std::uint64_t>, found, deadline));
  if (pair != all_agree) {
    auto const names = std::to_string(pair >> 32), other = std::to_string(pair & UINT32_MAX);
    return Error{Errc::disagreement, "rank " + names + " names rank " + other +
                                         " as a peer, and rank " + other + " does not name rank " +
                                         names + ": each of two peers names the other"};
  }
  if (state.linking() != nullptr) return connect_by_connector(team, state, options, deadline);
  auto const connected = [&]() -> Result<void> {
    for (std::uint32_t const rank : state.ranks()) {
      auto const at = std::ranges::find(members, rank) - members.begin();
      LEND_TRY(endpoint, Endpoint::decode(theirs[static_cast<std::size_t>(at)].endpoint));
      auto const made = state.connect(endpoint);
      if (!made)
        return Error{made.error().code(), "no connection to rank " + std::to_string(rank) + ": " +
                                              made.error().message()};
    }
    return success();
  }();
  // No rank sends before its peer's queue pair takes it.
  return agree_on(team, connected, deadline);
}

}  // namespace

Peers::Peers(std::unique_ptr<PeersState> state) noexcept : state_{std::move(state)} {}
Peers::Peers(Peers&&) noexcept = default;
Peers& Peers::operator=(Peers&&) noexcept = default;
Peers::~Peers() = default;

PeersState& Peers::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a Peers was used after it had been moved from");
  return *state_;
}

Result<Peers> Peers::connect(Team& team, std::span<std::uint32_t const> ranks, Deadline deadline,
                             PeerOptions const& options) {
  static_cast<void>(team.state());  // stops where it was moved from
  auto const& group = team.state_;
  auto state = std::make_unique<PeersState>(group, Team{group, *team.membership_});
  auto const prepared = [&]() -> Result<void> {
    LEND_TRYV(state->name(ranks, team.members()));
    return state->prepare(options);
  }();
  auto const met = meet(team, *state, options, prepared, deadline);
  if (!met) {
    // What was sent cannot be taken back.
    if (base::is_given_up(met.error())) group->abandon("its ranks did not connect to their peers");
    return met.error();
  }
  return Peers{std::move(state)};
}

Result<Peers> Peers::connect_all(Team& team, Deadline deadline, PeerOptions const& options) {
  std::vector<std::uint32_t> ranks(team.size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  ranks[team.rank()] = no_rank;
  return connect(team, ranks, deadline, options);
}

std::span<std::uint32_t const> Peers::ranks() const noexcept {
  return state().ranks();
}

Channel& Peers::operator[](std::uint32_t rank) & noexcept {
  Channel* const channel = state().find(rank);
  if (channel == nullptr) [[unlikely]]
    stop(state().no_such_peer(rank).message());
  if (channel->first_cause() != nullptr) [[unlikely]]
    state().tell_of_end(rank);
  return *channel;
}

Result<WorkSuccess> Peers::send_receive(std::uint32_t to, Send const& sent, std::uint32_t from,
                                        Receive const& received, Deadline deadline,
                                        SourceLine where) noexcept {
  PeerScope scope{*this};
  scope.drain_within(std::chrono::nanoseconds{0});
  PendingWork taken, given;
  auto const meet = [&]() -> Result<void> {  // between the two posts
    if (from != no_rank) state().note_posted(from);
    LEND_TRYV(state().tell_posted(deadline));
    return to != no_rank ? state().await_receive(to, deadline) : success();
  };
  auto const posted = [&]() -> Result<void> {
    if (from == no_rank || to == no_rank) {  // one at most is posted
      LEND_TRY(receive, scope.post_receive(from, received, deadline, where));
      if (to != no_rank) {
        LEND_TRYV(without_value(scope.on(to)));
      }
      LEND_TRYV(meet());
      LEND_TRY(send, scope.post_send(to, sent, deadline, where));
      taken = std::move(receive);
      given = std::move(send);
      return success();
    }
    LEND_TRY(of_source, scope.on(from));
    LEND_TRY(of_target, scope.on(to));
    // What is posted is taken back only by an abort, which breaks the group: so both are checked
    // and lent first.
    auto receives = of_source->batch();
    auto sends = of_target->batch();
    auto const in_batches = [&]() -> Result<void> {
      LEND_TRY(receive, receives.add_receive(received, deadline, where));
      LEND_TRY(send, sends.add_send(sent, deadline, where));
      LEND_TRYV(receives.post(deadline));
      taken = std::move(receive);
      given = std::move(send);
      LEND_TRYV(meet());
      return sends.post(deadline);
    }();
    if (in_batches.has_error()) {
      receives.drop();
      sends.drop();
    }
    return in_batches;
  }();
  LEND_TRYV(posted);
  if (to != no_rank) state().note_sent(to);
  LEND_TRYV(given.wait(deadline));
  LEND_TRY(success, taken.wait(deadline));
  LEND_TRYV(scope.finish());
  return success;
}

Result<PeerMessage> Peers::receive_any(Deadline deadline) noexcept {
  ReceivePool* const pool = state().pool();
  if (ranks().empty()) return Error{Errc::invalid_argument, "this rank has no peers"};
  if (pool == nullptr)
    return Error{Errc::invalid_argument,
                 "these peers share no receives: say PeerOptions::shared_receives, or post a "
                 "receive to each sender"};
  for (;;) {
    if (auto message = pool->next()) {
      auto const rank = static_cast<std::uint32_t>(message->tag());
      return PeerMessage{rank, std::move(*message)};
    }
    auto& group = state().group();
    if (group.peers().have_all_left(ranks()))
      return Error{Errc::peer_lost, "all peers have left the group: no message can come any more"};
    LEND_TRYV(group.calls().wait_for_any(deadline));
  }
}

// ---- a scope over them ----

PeerScope::PeerScope(Peers& peers) noexcept
    : peers_{peers}, scope_{peers.state().group().links().set()} {}

PeerScope& PeerScope::drain_within(std::chrono::nanoseconds bound) noexcept {
  scope_.drain_within(bound);
  return *this;
}
PeerScope& PeerScope::drain_until(Deadline deadline) noexcept {
  scope_.drain_until(deadline);
  return *this;
}

Result<PollingScope*> PeerScope::on(std::uint32_t rank) noexcept {
  Channel* const channel = peers_.state().find(rank);
  if (channel == nullptr) return peers_.state().no_such_peer(rank);
  if (channel->first_cause() != nullptr) [[unlikely]]
    peers_.state().tell_of_end(rank);
  return scope_.on(*channel);
}

Result<PendingWork> PeerScope::post_send(std::uint32_t rank, Send const& work, Deadline deadline,
                                         SourceLine where) noexcept {
  if (rank == no_rank) return PendingWork{};
  LEND_TRY(scope, on(rank));
  return scope->post_send(work, deadline, where);
}

Result<PendingWork> PeerScope::post_receive(std::uint32_t rank, Receive const& work,
                                            Deadline deadline, SourceLine where) noexcept {
  if (rank == no_rank) return PendingWork{};
  LEND_TRY(scope, on(rank));
  return scope->post_receive(work, deadline, where);
}

}  // namespace lend
