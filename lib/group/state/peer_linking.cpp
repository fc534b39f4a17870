// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/state/peer_linking.hpp>
#include <launch/desk_table.hpp>
#include <network/wire/socket.hpp>
#include <verbs/queue/adoption.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace lend::group {

namespace {

/// A peer that has not answered by then has given up its own attempt, or its connection was reset:
/// SoftiWARP's kernel gives up after 10 s.
constexpr std::chrono::seconds attempt_bound{15};
/// What a peer's device has written wakes no thread.
constexpr std::chrono::milliseconds between_looks{1};

}  // namespace

Result<std::unique_ptr<PeerLinking>> PeerLinking::open(GroupState& group,
                                                       std::vector<std::uint32_t> ranks) {
  LEND_TRY(linking,
           Linking::open(group.links().domain().context(), group.links().options().connector));
  LEND_TRY(words, PeerWords::create(group.links().domain(), ranks.size()));
  std::vector<LinkAddress> addresses;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    LEND_TRY(address, linking->new_address());
    addresses.push_back(address);
  }
  return std::make_unique<PeerLinking>(group, std::move(ranks), std::move(linking),
                                       std::move(words), std::move(addresses));
}

PeerLinking::PeerLinking(GroupState& group, std::vector<std::uint32_t> ranks,
                         std::unique_ptr<Linking> linking, PeerWords words,
                         std::vector<LinkAddress> addresses)
    : group_{group},
      ranks_{std::move(ranks)},
      linking_{std::move(linking)},
      words_{std::move(words)},
      addresses_{std::move(addresses)},
      peers_(ranks_.size()) {}

PeerLinkCard PeerLinking::card(std::size_t place) const noexcept {
  return {addresses_[place].encode(), words_.remote(place).encode()};
}

Error PeerLinking::not_connected(std::size_t place, Error const& why) const {
  return {why.code(),
          "no connection to rank " + std::to_string(ranks_[place]) + ": " + why.message()};
}

Result<void> PeerLinking::connect(std::vector<PreparedChannel> prepared,
                                  std::span<PeerLinkCard const> theirs, Deadline deadline) {
  auto& making = linking_->links();
  auto const bound = sooner(deadline, within(attempt_bound));
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    LEND_TRY(word, RemoteRegion::decode(theirs[place].word));
    words_.set_target(place, word);
    auto queue_pair = prepared[place].take_queue_pair();
    if (group_.links().ranks().rank < ranks_[place]) {
      making.accept(ranks_[place], addresses_[place].key, std::move(queue_pair), bound);
      continue;
    }
    auto const begun = making.connect(ranks_[place], LinkAddress::decode(theirs[place].address),
                                      std::move(queue_pair), bound);
    if (!begun) return not_connected(place, begun.error());
  }
  for (;;) {
    LEND_TRYV(take_connections(prepared));
    LEND_TRY(next_look, greet_all());
    if (!next_look) return success();
    if (deadline.has_passed())
      return base::gave_up(deadline, "rank " + std::to_string(group_.links().ranks().rank) +
                                         " was not connected to its peers, " +
                                         launch::list_of(missing()));
    if (bound.has_passed())
      return Error{Errc::peer_lost, "no connection to " + launch::list_of(missing()) + " within " +
                                        std::to_string(attempt_bound.count()) + " s"};
    LEND_TRY(may_sleep, group_.calls().arm());
    if (!may_sleep) continue;
    LEND_TRYV(network::sleep_on(std::array{making.descriptor(), group_.links().set().descriptor()},
                                sooner(bound, *next_look)));
  }
}

Result<void> PeerLinking::take_connections(std::vector<PreparedChannel>& prepared) {
  for (;;) {
    LEND_TRY(made, linking_->links().next());
    if (!made) return success();
    auto const place =
        static_cast<std::size_t>(std::ranges::lower_bound(ranks_, made->rank) - ranks_.begin());
    if (!made->queue_pair) return not_connected(place, made->queue_pair.error());
    auto queue_pair = std::move(made->queue_pair).value();
    auto const first = verbs::QueuePairAccess::handle_of(queue_pair).first_sender;
    auto channel = std::move(prepared[place]).adopt(std::move(queue_pair));
    if (!channel) return not_connected(place, channel.error());
    auto& peer = peers_[place];
    peer.channel = std::move(channel).value();
    peer.greetings = flow::Greetings{first};
    peer.has_met = first == verbs::FirstSender::either;
  }
}

Result<void> PeerLinking::greet(std::size_t place) {
  auto& [channel, greetings, has_met] = peers_[place];
  if (!channel || has_met) return success();
  if (Error const* const broken = channel->first_cause()) return *broken;
  if (words_.has_heard(place)) {
    if (greetings.is_awaited()) {
      LEND_TRY(told, words_.tell(place, *channel));
      if (!told) return success();
    }
    greetings.note_arrival();
    has_met = true;
  } else if (greetings.is_due()) {
    LEND_TRY(told, words_.tell(place, *channel));
    if (told) greetings.note_sent();
  }
  return success();
}

Result<std::optional<Deadline>> PeerLinking::greet_all() {
  std::optional<Deadline> next;
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    auto const greeted = greet(place);
    if (!greeted) return not_connected(place, greeted.error());
    if (peers_[place].has_met) continue;
    next = sooner(next.value_or(Deadline::never()),
                  peers_[place].channel ? within(between_looks) : Deadline::never());
  }
  return next;
}

std::vector<std::uint32_t> PeerLinking::missing() const {
  std::vector<std::uint32_t> ranks;
  for (std::size_t place = 0; place < ranks_.size(); ++place)
    if (!peers_[place].has_met) ranks.push_back(ranks_[place]);
  return ranks;
}

std::vector<Channel> PeerLinking::take_channels() {
  std::vector<Channel> channels;
  for (Peer& peer : peers_) channels.push_back(std::move(*peer.channel));
  return channels;
}

}  // namespace lend::group
