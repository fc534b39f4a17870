// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of collectives: what ranks give and get, how long that is, and how it goes from rank to
// rank. A new one is a row here, its name in observe::call_names, and its call in Team and in
// GroupScope. Values; any thread.
#pragma once

#include <lend/group/collective.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lend::group {

/// What tells the root from the other ranks.
enum class Root : std::uint8_t {
  none,   ///< there is none
  gives,  ///< it alone gives values to others
  gets,   ///< it alone gets values of others
};

/// What a rank gives (`in`) or gets (`out`).
enum class Parts : std::uint8_t {
  none,
  own,       ///< one part
  all,       ///< one part for each rank, at the root only if there is one
  in_place,  ///< only as `in`: the part that is `out`
};

/// How values go from rank to rank.
enum class Schedule : std::uint8_t {
  dissemination,  ///< no values: each rank hears of all
  broadcast,      ///< a binomial tree
  reduction,      ///< a binomial tree
  doubling,       ///< recursive doubling
  scan,           ///< recursive doubling, of the ranks up to each
  exscan,         ///< the same, moved on by one rank
  direct,         ///< from the rank that gives a part to the one that gets it
};

enum class Lengths : std::uint8_t {
  equal,
  pairs,  ///< counted: of a part, the ranks that send and receive it have the count
  known,  ///< counted: all ranks have all counts
};

struct Layout {
  Collective collective;
  Root root;
  Parts in, out;
  Schedule schedule;
  Lengths lengths = Lengths::equal;

  /// Whether a rank has values of its own to give to others.
  [[nodiscard]] constexpr bool gives(bool is_root) const noexcept {
    return root == Root::none || (root == Root::gives) == is_root;
  }
  /// Whether a rank gets values of others.
  [[nodiscard]] constexpr bool gets(bool is_root) const noexcept {
    return root == Root::none || (root == Root::gets) == is_root;
  }
  /// Whether a rank has these parts, `in` or `out`.
  [[nodiscard]] constexpr bool has(Parts parts, bool is_root) const noexcept {
    return parts != Parts::none && (parts != Parts::all || root == Root::none || is_root);
  }
  /// Whether values of all ranks become one part: what a rank gets of several ranks is a part for
  /// each of them, or one that combines theirs.
  [[nodiscard]] constexpr bool combines() const noexcept {
    return out == Parts::own && root != Root::gives;
  }
  /// Whether they are combined in the accumulator, the own ones first.
  [[nodiscard]] constexpr bool combines_own() const noexcept {
    return combines() && in == Parts::in_place;
  }
  /// Whether parts have lengths of their own.
  [[nodiscard]] constexpr bool is_uneven() const noexcept { return lengths != Lengths::equal; }
};

inline constexpr std::array<Layout, 15> layouts{{
    {Collective::barrier, Root::none, Parts::none, Parts::none, Schedule::dissemination},
    {Collective::broadcast, Root::gives, Parts::in_place, Parts::own, Schedule::broadcast},
    {Collective::gather, Root::gets, Parts::own, Parts::all, Schedule::direct},
    {Collective::scatter, Root::gives, Parts::all, Parts::own, Schedule::direct},
    {Collective::allgather, Root::none, Parts::own, Parts::all, Schedule::direct},
    {Collective::all_to_all, Root::none, Parts::all, Parts::all, Schedule::direct},
    {Collective::reduce, Root::gets, Parts::in_place, Parts::own, Schedule::reduction},
    {Collective::allreduce, Root::none, Parts::in_place, Parts::own, Schedule::doubling},
    {Collective::reduce_scatter, Root::none, Parts::all, Parts::own, Schedule::direct},
    {Collective::scan, Root::none, Parts::in_place, Parts::own, Schedule::scan},
    {Collective::exscan, Root::none, Parts::in_place, Parts::own, Schedule::exscan},
    {Collective::gatherv, Root::gets, Parts::own, Parts::all, Schedule::direct, Lengths::pairs},
    {Collective::scatterv, Root::gives, Parts::all, Parts::own, Schedule::direct, Lengths::pairs},
    {Collective::allgatherv, Root::none, Parts::own, Parts::all, Schedule::direct, Lengths::known},
    {Collective::all_to_allv, Root::none, Parts::all, Parts::all, Schedule::direct, Lengths::pairs},
}};

/// Its row.
/// Shape: one that this rank calls.
[[nodiscard]] constexpr Layout const& layout_of(Collective collective) noexcept {
  return layouts[static_cast<std::size_t>(collective)];
}
static_assert([] {
  for (std::size_t i = 0; i < layouts.size(); ++i)
    if (static_cast<std::size_t>(layouts[i].collective) != i) return false;
  return true;
}());

/// Shape: any value; one that a peer sent may be none of these.
[[nodiscard]] std::string_view name_of(Collective collective) noexcept;
/// With the bytes of one rank's values, where it has any.
[[nodiscard]] std::string text_of(Collective collective, std::uint64_t bytes);

}  // namespace lend::group
