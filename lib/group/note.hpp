// SPDX-License-Identifier: MIT OR Apache-2.0
// The head of each message between ranks. Values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lend::group {

enum class Collective : std::uint8_t {
  barrier,
  broadcast,
  gather,
  scatter,
  allgather,
  all_to_all,
  reduce,
  allreduce,
  reduce_scatter,
  scan,
  exscan,
  // Whose parts have lengths of their own:
  gatherv,
  scatterv,
  allgatherv,
  all_to_allv,
};
/// Whether values of all ranks are combined in the accumulator, the own ones first.
[[nodiscard]] constexpr bool combines_own(Collective collective) noexcept {
  return collective == Collective::reduce || collective == Collective::allreduce ||
         collective == Collective::scan || collective == Collective::exscan;
}
/// Whether its parts have lengths of their own.
[[nodiscard]] constexpr bool is_uneven(Collective collective) noexcept {
  return collective >= Collective::gatherv;
}
[[nodiscard]] std::string_view name_of(Collective collective) noexcept;
/// With the bytes of one rank's values, where it has any.
[[nodiscard]] std::string text_of(Collective collective, std::uint64_t bytes);

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
struct Note {
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

  [[nodiscard]] static Note of(Fault const& fault) noexcept {
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
static_assert(sizeof(Note) == 32);

}  // namespace lend::group
