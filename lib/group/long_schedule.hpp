// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of each rank in each round of a collective of long values, which ranks read from each
// other's shelves. Pure: no memory, no channel. Any thread.
#pragma once

#include <group/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lend::group {

/// One step of a round. A rank tells others that its shelf has what they read in this round, once
/// all its rounds before are over; those that combine are done in their order.
///
/// Shape:   the last message of each rank that reads to the one that it reads from comes after the
///          read, so that a rank whose rounds are over can use its shelf again.
struct LongStep {
  enum class Kind : std::uint8_t {
    keep,         ///< no message: block `from` of the own values becomes block `to` of out
    show,         ///< no message: block `from` of the own values, to the shelf
    tell,         ///< to `peer`: this rank has come to this round
    hear,         ///< waits until `peer` has come to this round
    read,         ///< the same, and then block `from` of the peer's shelf becomes block `to` of out
    pass_on,      ///< the same, and block `from` of the own shelf: others read it there
    combine,      ///< as hear; then block `from` of the peer's shelf into that of the own shelf;
                  ///< the first that comes is only copied
    combine_own,  ///< no message: block `from` of the own values, into that of the own shelf
    take,         ///< no message: block `from` of the own shelf becomes block `to` of out
  };
  Kind kind{};
  std::uint32_t peer = 0;
  std::uint32_t from = 0, to = 0;

  friend bool operator==(LongStep const&, LongStep const&) = default;
};

/// Whether all ranks read from all, which takes a link between any two of them: else the values go
/// in messages. The same at all ranks.
[[nodiscard]] bool can_be_read(Collective collective, std::uint32_t size,
                               std::size_t element_bytes) noexcept;

/// Whether a piece is cut into blocks: the values of all ranks have the same places. Elsewhere each
/// rank's part is a block.
[[nodiscard]] bool is_cut(Collective collective) noexcept;
/// Blocks that a shelf has room for.
[[nodiscard]] std::uint32_t blocks_of(Collective collective, std::uint32_t size) noexcept;

/// Number of rounds: the same at all ranks.
[[nodiscard]] std::uint16_t long_rounds_of(Collective collective) noexcept;
/// Appends the steps of one round. `root` only where the collective has one.
void add_long_round(Collective collective, Ranks ranks, std::uint32_t root, std::uint16_t round,
                    std::vector<LongStep>& steps);

}  // namespace lend::group
