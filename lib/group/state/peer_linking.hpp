// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels to peers while a connector makes them, on devices that no endpoints connect (iWARP). The
// thread of the group.
#pragma once

#include <flow/greetings.hpp>
#include <group/link/linking.hpp>
#include <group/link/peer_words.hpp>
#include <group/state/group_state.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::group {

/// What a rank gives a peer for that: no values of its own are in it.
struct PeerLinkCard {
  std::array<std::byte, LinkAddress::encoded_size> address{};
  std::array<std::byte, RemoteRegion::encoded_size> word{};
};

/// One attempt to connect to all of `ranks`, which ascend.
///
/// As with the links of the group, the higher of two ranks connects, and so greets first.
class PeerLinking {
 public:
  /// Errors:  those of Linking::open() and PeerWords::create().
  [[nodiscard]] static Result<std::unique_ptr<PeerLinking>> open(GroupState& group,
                                                                 std::vector<std::uint32_t> ranks);
  PeerLinking(GroupState& group, std::vector<std::uint32_t> ranks, std::unique_ptr<Linking> linking,
              PeerWords words, std::vector<LinkAddress> addresses);

  /// For the peer with that number.
  [[nodiscard]] PeerLinkCard card(std::size_t place) const noexcept;
  /// Until all have met, by their cards, in their order.
  /// Errors:  timed_out, cancelled; those of the connector and of a channel that breaks, and
  ///          peer_lost  a peer does not answer: another attempt may succeed.
  [[nodiscard]] Result<void> connect(std::vector<PreparedChannel> prepared,
                                     std::span<PeerLinkCard const> theirs, Deadline deadline);
  /// The channels, after connect().
  [[nodiscard]] std::vector<Channel> take_channels();
  [[nodiscard]] PeerWords take_words() noexcept { return std::move(words_); }

 private:
  struct Peer {
    std::optional<Channel> channel{};
    flow::Greetings greetings{verbs::FirstSender::either};
    bool has_met = false;
  };

  [[nodiscard]] Error not_connected(std::size_t place, Error const& why) const;
  [[nodiscard]] Result<void> take_connections(std::vector<PreparedChannel>& prepared);
  [[nodiscard]] Result<void> greet(std::size_t place);
  /// When to look again; nothing: all have met.
  [[nodiscard]] Result<std::optional<Deadline>> greet_all();
  [[nodiscard]] std::vector<std::uint32_t> missing() const;

  GroupState& group_;
  std::vector<std::uint32_t> ranks_;
  std::unique_ptr<Linking> linking_;
  PeerWords words_;  // outlives the channels
  std::vector<LinkAddress> addresses_;
  std::vector<Peer> peers_;
};

}  // namespace lend::group
