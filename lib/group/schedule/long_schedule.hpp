// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of each rank in each round of a collective of long values, which ranks read from each
// other's memory. Pure: no memory, no channel. Any thread.
#pragma once

#include <group/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lend::group {

// What both ends of a piece touch stays in a second-level cache of 1 MiB.
inline constexpr std::size_t long_buffer_bytes = 131'072;
inline constexpr std::uint32_t long_buffer_count = 2;

/// One step of a round. Each rank has an exposed buffer, which the others read. A rank signals that
/// it has there what they read in this round, once all its rounds before are over. Steps that
/// combine are done in their order.
///
/// Shape:   the last message of each rank that reads to the one that it reads from comes after the
///          read, so that a rank whose rounds are over can use its buffer again.
struct LongStep {
  enum class Kind : std::uint8_t {
    keep,         ///< no message: block `from` of the own values becomes block `to` of out
    expose,       ///< no message: block `from` of the own values, to the own buffer
    signal,       ///< to `peer`: this rank has come to this round
    await,        ///< waits until `peer` has come to this round
    read,         ///< awaits; then block `from` of the peer's buffer becomes block `to` of out
    pass_on,      ///< as read; and it becomes block `from` of the own buffer: others read it there
    combine,      ///< awaits; then block `from` of the peer's buffer into that of the own buffer;
                  ///< the first that comes is only copied
    combine_own,  ///< no message: block `from` of the own values, into that of the own buffer
    take,         ///< no message: block `from` of the own buffer becomes block `to` of out
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
[[nodiscard]] bool is_divided(Collective collective) noexcept;
/// Whether each part goes straight from the rank that gives it to those that get it. So readers may
/// as well read it where it is, all of it at once, in the rounds of the first piece.
[[nodiscard]] bool are_parts_read(Collective collective) noexcept;
/// Blocks that a buffer has room for.
[[nodiscard]] std::uint32_t blocks_of(Collective collective, std::uint32_t size) noexcept;

/// Number of rounds: the same at all ranks.
[[nodiscard]] std::uint16_t long_rounds_of(Collective collective) noexcept;
/// Appends the steps of one round. `root` only where the collective has one.
void add_long_round(Collective collective, Ranks ranks, std::uint32_t root, std::uint16_t round,
                    std::vector<LongStep>& steps);

}  // namespace lend::group
