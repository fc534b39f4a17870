// SPDX-License-Identifier: MIT OR Apache-2.0
// What a rank and the desk say to each other, as bytes. No I/O. One thread at a time.
//
//   sit:      2 length of the group's name, 64 name padded with zeros, 4 rank, 4 size,
//             4 message_bytes, 4 window, 4 links (0: to all, 1: to few), then of Coming
//             4 generation, 4 seen, 8 finished, 4 at_least, 4 patience
//   members:  4 generation, 8 finished_by_all, 4 how many there are in all, 2 how many of them are
//             in this frame (none: all ranks are), 64 × 4 rank, padded with zeros
//   cards:    4 how many there are in all, 2 how many of them are in this frame, 16 × (4 rank,
//             56 Endpoint::encode(), 32 RemoteRegion::encode(), 34 LinkAddress::encode()), padded
//             with zeros
#pragma once

#include <network/wire/frame.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lend::launch {

inline constexpr std::uint32_t group_size_max = 65'536;

/// What the links of all ranks must have in common.
struct Terms {
  std::uint32_t message_bytes = 0, window = 0;
  bool are_few = false;  ///< not each rank with each; which ones, follows from the size

  friend bool operator==(Terms const&, Terms const&) = default;
};

/// What a rank brings along that was in a group before, and how it wants to go on. Zeros: it comes
/// for the first time.
struct Coming {
  std::uint32_t generation = 0;   ///< of the group that it was in
  std::uint32_t seen = 0;         ///< the latest that it was asked to be in
  std::uint64_t finished = 0;     ///< calls of that group
  std::uint32_t at_least = 0;     ///< so many ranks may go on without the others
  std::uint32_t patience_ms = 0;  ///< after which they do
};

/// How a rank introduces itself to the desk.
struct Sit {
  std::string group{};  ///< at most group_name_max bytes
  std::uint32_t rank = 0, size = 0;
  Terms terms{};
  Coming coming{};
};

/// Which ranks are to be a group.
struct Members {
  std::uint32_t generation = 0;        ///< another for each that the desk proposes
  std::uint64_t finished_by_all = 0;   ///< calls of the group before, by all that were in it
  std::vector<std::uint32_t> ranks{};  ///< as they sit; they ascend
};

/// What one rank gives another to connect to it. On its way to the desk `rank` says which rank is
/// to get it, on its way from there, whose it is.
struct Card {
  std::uint32_t rank = 0;
  Endpoint endpoint{};
  RemoteRegion record{};   ///< memory that the other may read
  RemoteRegion mailbox{};  ///< memory that it may write
  LinkAddress address{};   ///< where it is awaited, if endpoints do not connect
};

/// Some of the members.
struct MembersFrame {
  std::uint32_t total = 0;
  Members members{};
};

/// Some of the cards of one rank.
struct CardsFrame {
  std::uint32_t total = 0;
  std::vector<Card> cards{};
};

[[nodiscard]] network::Frame encode(Sit const& sit, network::Sealing* sealing);
/// members_per_frame of `members` from `first` on; none of them where they are all of `size`.
[[nodiscard]] network::Frame encode_members(Members const& members, std::size_t first,
                                            std::uint32_t size, network::Sealing* sealing);
/// The first cards_per_frame of `cards`, of which there are `total` in all.
[[nodiscard]] network::Frame encode_cards(std::uint32_t total, std::span<Card const> cards,
                                          network::Sealing* sealing);

/// Shape:   complete(), and of that kind.
/// Errors:  incompatible_peer  as FrameReader::greeting().
[[nodiscard]] Result<Sit> sit_in(network::FrameReader const& reader);
[[nodiscard]] Result<MembersFrame> members_in(network::FrameReader const& reader);
[[nodiscard]] Result<CardsFrame> cards_in(network::FrameReader const& reader);

}  // namespace lend::launch
