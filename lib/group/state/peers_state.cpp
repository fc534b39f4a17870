// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/state/peers_state.hpp>

#include <functional>
#include <string>
#include <utility>

namespace lend::group {

PeersState::PeersState(std::shared_ptr<GroupState> group, Team team) noexcept
    : group_{std::move(group)}, team_{std::move(team)} {}

PeersState::~PeersState() {
  if (first_tag_ != 0) group_->peers().remove(*this);
}

Result<void> PeersState::name(std::span<std::uint32_t const> ranks,
                              std::span<std::uint32_t const> members) {
  for (std::uint32_t const rank : ranks) {
    if (rank == no_rank) continue;
    if (rank >= members.size())
      return Error{Errc::invalid_argument, "there is no rank " + std::to_string(rank) +
                                               ": the ranks are 0 to " +
                                               std::to_string(members.size() - 1)};
    ranks_.push_back(members[rank]);
  }
  std::ranges::sort(ranks_);
  if (auto const twice = std::ranges::adjacent_find(ranks_); twice != ranks_.end())
    return Error{Errc::invalid_argument, "rank " + std::to_string(*twice) + " is named twice"};
  if (std::ranges::binary_search(ranks_, group_->links().ranks().rank))
    return Error{Errc::invalid_argument, "a rank is no peer of itself"};
  return success();
}

Result<void> PeersState::prepare(PeerOptions const& options) {
  ChannelOptions channel = options.channel;
  channel.wait_set = &group_->links().set();
  // A pool awaits messages for ever, also of ranks that have ended their Peers. The links ask.
  channel.keep_alive = options.shared_receives != 0
                           ? std::optional<std::chrono::nanoseconds>{std::chrono::nanoseconds{0}}
                           : group_->links().options().keep_alive;
  channel.queue_pair.connection = group_->links().options().connection;
  channel.receive_pool = nullptr;
  prepared_.clear();
  pool_.reset();
  if (options.shared_receives != 0 && !ranks_.empty()) {
    LEND_TRY(memory, group_->links().domain().allocate(std::size_t{options.shared_receives} *
                                                       options.shared_bytes));
    shared_ = std::move(memory);
    LEND_TRY(pool,
             ReceivePool::create(group_->links().set(), shared_->chunks(options.shared_bytes)));
    pool_ = std::move(pool);
    channel.receive_pool = &*pool_;
  }
  if (first_tag_ == 0) first_tag_ = group_->peers().add(*this);
  for (std::uint32_t const rank : ranks_) {
    channel.tag = first_tag_ | rank;
    channel.peer_name = "rank " + std::to_string(rank);
    LEND_TRY(prepared, channel::Preparing::prepare(group_->links().domain(), channel, {},
                                                   std::chrono::seconds{1}));
    prepared_.push_back(std::move(prepared));
  }
  channels_.reserve(ranks_.size());
  if (group_->links().ranks().size > 1 &&
      !group_->links().domain().context().capabilities().endpoints) {
    LEND_TRY(linking, PeerLinking::open(*group_, ranks_));
    linking_ = std::move(linking);
  }
  return success();
}

Result<void> PeersState::connect(Endpoint const& peer) {
  LEND_TRY(channel, std::move(prepared_[channels_.size()]).handshake(peer));
  channels_.push_back(std::move(channel));
  channel::ChannelState::of(channels_.back()).losses.ask(group_->peers().losses());
  return success();
}

Result<void> PeersState::connect_all(std::span<PeerLinkCard const> peers, Deadline deadline) {
  auto const linking = std::move(linking_);
  LEND_TRYV(linking->connect(std::exchange(prepared_, {}), peers, deadline));
  words_ = linking->take_words();
  channels_ = linking->take_channels();
  for (Channel& channel : channels_)
    channel::ChannelState::of(channel).losses.ask(group_->peers().losses());
  return success();
}

void PeersState::tell_of_end(std::uint32_t rank) noexcept {
  auto const& failures = channel::ChannelState::of(channels_[place_of(rank)]).failures;
  if (failures.has_first_cause() && !failures.has_loss())
    group_->peers().break_by_end(rank, *failures.first_cause());
}

// ---- where each message needs a receive that was posted before ----

Result<void> PeersState::tell_by_words(Deadline deadline) {
  for (std::size_t place = 0; place < ranks_.size(); ++place)
    while (words_->owes(place)) {
      LEND_TRY(told, words_->tell(place, channels_[place]));
      if (told) break;
      LEND_TRYV(group_->calls().wait_for_any(deadline));
    }
  return success();
}

Result<void> PeersState::await_receive(std::uint32_t rank, Deadline deadline) {
  if (finds_receive(rank)) return success();
  auto& channel = channel::ChannelState::of(channels_[place_of(rank)]);
  auto const finds = [&] { return finds_receive(rank); };
  while (!finds()) {
    if (channel.is_broken()) {
      tell_of_end(rank);
      return channel.failures.broken_error();
    }
    if (group_->links().has_left(rank) && !finds()) {
      group_->peers().break_by_leaving(rank);
      continue;
    }
    channel.watch.awaits_beside = true;
    auto const waited = group_->calls().wait_for_any(deadline, std::ref(finds));
    channel.watch.awaits_beside = false;
    if (waited.has_value()) continue;
    if (!base::is_given_up(waited.error())) return waited;
    return base::gave_up(deadline, "rank " + std::to_string(rank) +
                                       " did not say that it has a receive for a message");
  }
  return success();
}

Error PeersState::no_such_peer(std::uint32_t rank) const {
  std::string all;
  for (std::uint32_t const one : ranks_) all += (all.empty() ? "" : ", ") + std::to_string(one);
  return {Errc::invalid_argument, "rank " + std::to_string(rank) +
                                      " is no peer: " + (all.empty() ? "there are none" : all)};
}

}  // namespace lend::group
