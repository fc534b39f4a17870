// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels to many peers: how they come together, and their grouped calls. The thread of the set.
#include <channel/calls/peer_rows.hpp>
#include <channel/state/preparing.hpp>
#include <channel/work/grouped_calls.hpp>
#include <lend/base/stop.hpp>
#include <lend/channel/multi_channel.hpp>

#include <chrono>
#include <string>

namespace lend {

using channel::ChannelState;
using channel::GroupedCalls;
using channel::MulticastRows;
using channel::ReadRows;
using channel::ReceiveRows;
using channel::SendRows;
using channel::WriteRows;

MultiChannel::MultiChannel(std::unique_ptr<GroupedCalls> state) noexcept
    : state_{std::move(state)} {}
MultiChannel::MultiChannel(MultiChannel&&) noexcept = default;
MultiChannel& MultiChannel::operator=(MultiChannel&&) noexcept = default;
MultiChannel::~MultiChannel() = default;

Result<MultiChannel> MultiChannel::adopt(std::vector<Channel> channels) try {
  if (channels.empty())
    return Error{Errc::invalid_argument, "there is no channel: a MultiChannel has one or more"};
  auto* const set = ChannelState::of(channels.front()).progress.set();
  for (std::size_t i = 0; i < channels.size(); ++i)
    if (set == nullptr || ChannelState::of(channels[i]).progress.set() != set)
      return Error{Errc::invalid_argument,
                   "channel " + std::to_string(i) +
                       (set == nullptr ? " is of no WaitSet" : " is not of channel 0's WaitSet") +
                       ": build all of them with one wait_set()"};
  return MultiChannel{std::make_unique<GroupedCalls>(std::move(channels), set->shared_from_this())};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

GroupedCalls& MultiChannel::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a MultiChannel was used after it had been moved from");
  return *state_;
}

std::uint32_t MultiChannel::size() const noexcept {
  return state().size();
}
Channel& MultiChannel::operator[](std::uint32_t peer) & noexcept {
  return state().at(peer);
}
Channel const& MultiChannel::operator[](std::uint32_t peer) const& noexcept {
  return state().at(peer);
}

Result<void> MultiChannel::scatter_send(std::span<PeerSend const> works,
                                        std::span<Outcome> outcomes, Deadline deadline,
                                        SourceLine where) noexcept {
  return state().run(SendRows{works}, outcomes, deadline, where);
}
Result<void> MultiChannel::gather_receive(std::span<PeerReceive const> works,
                                          std::span<Outcome> outcomes, Deadline deadline,
                                          SourceLine where) noexcept {
  return state().run(ReceiveRows{works}, outcomes, deadline, where);
}
Result<void> MultiChannel::scatter_write(std::span<PeerWrite const> works,
                                         std::span<Outcome> outcomes, Deadline deadline,
                                         SourceLine where) noexcept {
  return state().run(WriteRows{works}, outcomes, deadline, where);
}
Result<void> MultiChannel::gather_read(std::span<PeerRead const> works, std::span<Outcome> outcomes,
                                       Deadline deadline, SourceLine where) noexcept {
  return state().run(ReadRows{works}, outcomes, deadline, where);
}
Result<void> MultiChannel::multicast_send(std::span<std::uint32_t const> peers, Send const& work,
                                          std::span<Outcome> outcomes, Deadline deadline,
                                          SourceLine where) noexcept {
  return state().run(MulticastRows{peers, work}, outcomes, deadline, where);
}

// ---- before they are connected ----

Result<PreparedMultiChannel> PreparedMultiChannel::prepare(ProtectionDomain const& domain,
                                                           WaitSet& set, std::uint32_t count,
                                                           ChannelOptions options) {
  if (count == 0)
    return Error{Errc::invalid_argument, "there is no peer: a MultiChannel has one or more"};
  std::vector<PreparedChannel> channels;
  channels.reserve(count);
  options.wait_set = &set;
  bool const is_named = !options.peer_name.empty();
  for (std::uint32_t i = 0; i < count; ++i, ++options.tag) {
    if (!is_named) options.peer_name = "peer " + std::to_string(i);
    LEND_TRY(prepared, channel::Preparing::prepare(domain, options, {}, std::chrono::seconds{1}));
    channels.push_back(std::move(prepared));
  }
  return PreparedMultiChannel{std::move(channels)};
}

std::vector<Endpoint> PreparedMultiChannel::endpoints() const {
  std::vector<Endpoint> all;
  all.reserve(channels_.size());
  for (PreparedChannel const& each : channels_) all.push_back(each.endpoint());
  return all;
}

PreparedChannel& PreparedMultiChannel::operator[](std::uint32_t peer) & noexcept {
  if (peer >= channels_.size()) [[unlikely]]
    stop("peer " + std::to_string(peer) + " of a PreparedMultiChannel of " +
         std::to_string(channels_.size()) + " was asked for");
  return channels_[peer];
}

Result<MultiChannel> PreparedMultiChannel::handshake(std::span<Endpoint const> peers) && {
  if (channels_.empty()) return Error{Errc::stale_handle, "these channels were connected before"};
  if (peers.size() != channels_.size())
    return Error{Errc::invalid_argument, "there are " + std::to_string(peers.size()) +
                                             " endpoints for " + std::to_string(channels_.size()) +
                                             " channels: give one for each, in their order"};
  auto prepared = std::exchange(channels_, {});
  std::vector<Channel> connected;
  connected.reserve(prepared.size());
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    LEND_TRY(channel, std::move(prepared[i]).handshake(peers[i]));
    connected.push_back(std::move(channel));
  }
  return MultiChannel::adopt(std::move(connected));
}

}  // namespace lend
