// SPDX-License-Identifier: MIT OR Apache-2.0
// What a rank and the desk say to each other, as bytes. No I/O. One thread at a time.
//
//   sit:    2 length of the group's name, 64 name padded with zeros, 4 rank, 4 size,
//           4 message_bytes, 4 window
//   cards:  4 how many there are in all, 2 how many of them are in this frame, 16 × (4 rank,
//           56 Endpoint::encode(), 32 RemoteRegion::encode()), padded with zeros
#pragma once

#include <network/frame.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lend::network {

inline constexpr std::uint32_t group_size_max = 65'536;

/// What the links of all ranks must have in common.
struct Terms {
  std::uint32_t message_bytes = 0, window = 0;

  friend bool operator==(Terms const&, Terms const&) = default;
};

/// How a rank introduces itself to the desk.
struct Sit {
  std::string group{};  ///< at most group_name_max bytes
  std::uint32_t rank = 0, size = 0;
  Terms terms{};
};

/// What one rank gives another to connect to it. On its way to the desk `rank` says which rank is
/// to get it, on its way from there, whose it is.
struct Card {
  std::uint32_t rank = 0;
  Endpoint endpoint{};
  RemoteRegion record{};  ///< memory that the other may read
};

/// Some of the cards of one rank.
struct CardsFrame {
  std::uint32_t total = 0;
  std::vector<Card> cards{};
};

[[nodiscard]] Frame encode(Sit const& sit, Sealing* sealing);
/// The first cards_per_frame of `cards`, of which there are `total` in all.
[[nodiscard]] Frame encode_cards(std::uint32_t total, std::span<Card const> cards,
                                 Sealing* sealing);

/// Shape:   complete(), and of that kind.
/// Errors:  incompatible_peer  as FrameReader::greeting().
[[nodiscard]] Result<Sit> sit_in(FrameReader const& reader);
[[nodiscard]] Result<CardsFrame> cards_in(FrameReader const& reader);

}  // namespace lend::network
