// SPDX-License-Identifier: MIT OR Apache-2.0
// The messages of each rank in each round of a collective. Pure: no memory, no channel. Any thread.
#pragma once

#include <group/schedule/collective.hpp>

#include <cstdint>
#include <vector>

namespace lend::group {

/// One message of a round. A round sends before it uses what it received, and ends when all its
/// steps are done; its receives are used in their order.
struct Step {
  enum class Kind : std::uint8_t {
    send,             ///< values of `place` to `peer`
    receive,          ///< values of `peer` to `place`
    combine,          ///< into the accumulator: own op theirs
    combine_reverse,  ///< the same: theirs op own
    combine_own,      ///< no message: part `block` of `in`, into the accumulator
  };
  /// Where values are.
  enum class Place : std::uint8_t {
    nothing,      ///< a message without values
    in,           ///< part `block` of what the caller gives
    out,          ///< part `block` of what the caller gets
    accumulator,  ///< what is combined so far; what comes first is only copied
    relay,        ///< slots of the Relay: those of `slots`
  };
  /// Slots of a Relay, in a row from slot `first` on; or of those whose number has the bit `bit`,
  /// from the `first`th of them on.
  struct Slots {
    std::uint32_t first = 0, count = 0;
    std::int8_t bit = -1;  ///< -1: in a row

    [[nodiscard]] std::uint32_t at(std::uint32_t index) const noexcept {
      auto const i = first + index;
      if (bit < 0) return i;
      return (i >> bit << (bit + 1)) | (1u << bit) | (i & ((1u << bit) - 1));
    }
    friend bool operator==(Slots const&, Slots const&) = default;
  };
  Kind kind{};
  Place place{};
  std::uint32_t peer = 0;
  std::uint32_t block = 0;
  Slots slots{};

  friend bool operator==(Step const&, Step const&) = default;
};

/// The ranks of a group or team, and the one that asks.
struct Ranks {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

/// Number of rounds: the same at all ranks.
[[nodiscard]] std::uint16_t rounds_of(Collective collective, std::uint32_t size) noexcept;

/// Appends the steps of one round. `root` only where the collective has one.
void add_round(Collective collective, Ranks ranks, std::uint32_t root, std::uint16_t round,
               std::vector<Step>& steps);

}  // namespace lend::group
