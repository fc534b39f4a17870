// SPDX-License-Identifier: MIT OR Apache-2.0
// The collectives of a group. Values; any thread.
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
/// Shape: any value; one that a peer sent may be none of these.
[[nodiscard]] std::string_view name_of(Collective collective) noexcept;
/// With the bytes of one rank's values, where it has any.
[[nodiscard]] std::string text_of(Collective collective, std::uint64_t bytes);

}  // namespace lend::group
