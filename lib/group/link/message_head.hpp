// SPDX-License-Identifier: MIT OR Apache-2.0
// The head of each message between ranks. Values.
#pragma once

#include <group/schedule/collective.hpp>

#include <cstdint>

namespace lend::group {

/// What broke a group, as ranks tell each other.
struct Fault {
  enum class Reason : std::uint16_t {
    lost,       ///< `rank` died
    left,       ///< `rank` left when it was needed
    disagreed,  ///< `rank` and `by` made different calls
    failed,     ///< `rank` has another error
    abandoned,  ///< `rank` has given up a call
  };
  Reason reason{};
  std::uint32_t rank = 0;
  std::uint32_t by = 0;  ///< the rank that found it out
};

/// In the byte order of the hosts, as the values are.
struct MessageHead {
  enum class Kind : std::uint8_t {
    part,    ///< of a collective
    credit,  ///< only says what was freed
    left,    ///< this rank's group has ended
    broken,  ///< it is broken by a Fault, which is in place of the values' place
    come,    ///< of a collective of long values: the sender has come to this round
  };

  std::uint32_t freed = 0;      ///< messages of the other direction that were taken, modulo 2^32
  std::uint32_t signature = 0;  ///< of the call, by which ranks find out that they disagree
  std::uint32_t team = 0;       ///< Membership::id
  std::uint32_t number = 0;     ///< of the team's collective, modulo 2^32
  std::uint32_t piece = 0;      ///< of its values
  std::uint32_t length = 0;     ///< of this message's values
  std::uint16_t round = 0;
  Kind kind{};
  Collective collective{};
  /// Of the whole call's values at one rank, at most 2^32 - 1; of an uneven part, its own.
  std::uint32_t call_bytes = 0;

  [[nodiscard]] static MessageHead of(Fault const& fault) noexcept {
    return {.number = fault.rank,
            .piece = fault.by,
            .round = static_cast<std::uint16_t>(fault.reason),
            .kind = Kind::broken};
  }
  /// Of one whose kind is `broken`.
  [[nodiscard]] Fault fault() const noexcept {
    return {static_cast<Fault::Reason>(round), number, piece};
  }
};
static_assert(sizeof(MessageHead) == 32);

/// The values of a `come` whose sender shows its values: where they are, in its memory.
struct ShownPlace {
  std::uint64_t address = 0;
  std::uint64_t key = 0;  // 32 bits
};

}  // namespace lend::group
