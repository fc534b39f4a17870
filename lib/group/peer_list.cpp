// SPDX-License-Identifier: MIT OR Apache-2.0
// One failure domain: what ends a channel to a peer ends the group, and the reverse. The thread of
// the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/peers_state.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace lend::group {

std::uint64_t PeerList::add(PeersState& peers) {
  auto const place = static_cast<std::size_t>(std::ranges::find(all_, nullptr) - all_.begin());
  if (place == all_.size())
    all_.push_back(&peers);
  else
    all_[place] = &peers;
  return (std::uint64_t{place} + 1) << 32;
}

void PeerList::remove(PeersState& peers) noexcept {
  *std::ranges::find(all_, &peers) = nullptr;
}

WaitSet& PeerList::set() noexcept {
  return group_.set_;
}

Channel* PeerList::find(std::uint64_t tag) const noexcept {
  auto const number = (tag >> 32) - 1;
  PeersState* const peers = number < all_.size() ? all_[number] : nullptr;
  return peers != nullptr ? peers->find(static_cast<std::uint32_t>(tag)) : nullptr;
}

Result<void> PeerList::wait_for_news(Deadline deadline,
                                     std::function<bool()> const& has_come) noexcept {
  if (group_.broken_) return *group_.broken_;
  LEND_TRY(has_news, group_.look());
  if (has_news) return success();
  auto const waited = group_.wait_for_news(deadline, has_come);
  if (waited.has_error() && !base::is_given_up(waited.error())) group_.break_by(waited.error());
  return waited;
}

bool PeerList::have_all_left(std::span<std::uint32_t const> ranks) const noexcept {
  return std::ranges::all_of(ranks, [this](std::uint32_t rank) {
    auto const& link = group_.links_[rank];
    return link != nullptr && link->peer_has_left();
  });
}

Error PeerList::lost(std::uint32_t rank, Error const& why) noexcept {
  using Reason = Fault::Reason;
  auto const name = "rank " + std::to_string(rank);
  auto const& link = group_.links_[rank];
  if (link != nullptr && link->peer_has_left())
    return group_.found(
        Reason::left, rank,
        Error{Errc::peer_lost, name + " has left the group, and work with it is outstanding"}
            .with_cause(why));
  if (channel::shows_loss(why))
    return group_.found(
        Reason::lost, rank,
        Error{Errc::peer_lost, name + " is lost: " + why.message()}.with_cause(why));
  return group_.found(
      why.work() != nullptr ? Reason::failed : Reason::abandoned, group_.ranks_.rank,
      Error{Errc::channel_broken,
            "this rank's work with " + name + " has ended, and broke the group: " + why.message()}
          .with_cause(why));
}

Result<void> PeerList::check() noexcept {
  auto const tag = std::exchange(broken_, std::nullopt);
  Channel const* const channel = tag ? find(*tag) : nullptr;
  Error const* const why = channel != nullptr ? channel->first_cause() : nullptr;
  if (why == nullptr) return success();
  return lost(static_cast<std::uint32_t>(*tag), *why);
}

void PeerList::look_for_loss(std::uint64_t tag) noexcept {
  if (!group_.look().has_value()) return;
  auto const rank = static_cast<std::uint32_t>(tag);
  auto const& link = group_.links_[rank];
  if (link == nullptr || !link->peer_has_left()) return;
  // What it sent before has come before its last word.
  Channel const* const channel = find(tag);
  if (channel == nullptr || channel::ChannelState::of(*channel).in_flight.outstanding() == 0)
    return;
  group_.break_by(lost(rank, {Errc::peer_lost, "its group has ended"}));
}

void PeerList::note_end(std::uint64_t tag, Error const& why) noexcept {
  // Others may have said why.
  static_cast<void>(group_.look());
  if (group_.has_left_ || group_.inheritance_.is_inherited()) return;
  if (group_.broken_) return end_all(*group_.broken_);
  group_.break_by(lost(static_cast<std::uint32_t>(tag), why));
}

void PeerList::end_all(Error const& why) noexcept {
  if (std::ranges::all_of(all_, [](auto const* each) { return each == nullptr; })) return;
  static_cast<void>(group_.set_.poll(group_.ready_));  // what has come counts
  for (PeersState* const peers : all_)
    if (peers != nullptr)
      for (Channel& channel : peers->channels())
        channel::ChannelState::of(channel).end_by_loss(why);
}

}  // namespace lend::group
