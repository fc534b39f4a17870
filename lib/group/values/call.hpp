// SPDX-License-Identifier: MIT OR Apache-2.0
// A collective as one rank calls it, and the ranks that call it. Values; any thread.
#pragma once

#include <group/schedule/collective.hpp>
#include <group/schedule/schedule.hpp>
#include <group/values/short_plan.hpp>
#include <lend/base/source_line.hpp>
#include <lend/group/values.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lend::group {

/// Ranks of a group that call collectives together. A group has one for each list of members, so
/// that its calls are counted once, however many handles there are.
struct Membership {
  std::vector<std::uint32_t> members{};  // ranks of the group, by those of the team
  Ranks ranks{};                         // in the team
  std::uint32_t id = 0;                  // from the members, without a word to them
  std::uint32_t number = 0;              // of calls that were begun; wraps
  bool is_whole = false;                 // all ranks of the group, in their order
  bool has_few_links = false;            // its calls go in HopSchedule
  ShortPlans plans{};

  /// The same at all members, another for another list, but for one pair in 2^32.
  [[nodiscard]] static std::uint32_t id_of(std::span<std::uint32_t const> members) noexcept;
};

struct Call {
  Collective collective{};
  std::uint32_t root = 0;
  std::span<std::byte const> in{};
  std::span<std::byte> out{};
  std::size_t block_bytes = 0;  // of one part of `in` or `out`; 0 where parts are uneven
  Combining op{};
  SourceLine where{};
  /// Whether `in` is on loan until the call is over.
  bool is_in_lent = false;
  /// That of `out`, where devices of the links may write to it: it is on loan meanwhile.
  verbs::RegionState* out_region = nullptr;
  PartCounts const* counts = nullptr;  // of uneven parts, else null

  [[nodiscard]] Layout const& layout() const noexcept { return layout_of(collective); }
  [[nodiscard]] bool is_uneven() const noexcept { return counts != nullptr; }
  /// Whether a part that the rank gives is for itself, and not combined with others.
  [[nodiscard]] bool keeps_own_part(Ranks ranks) const noexcept {
    bool const is_root = ranks.rank == root;
    return layout().has(layout().in, is_root) && layout().has(layout().out, is_root) &&
           layout().in != Parts::in_place && (!layout().combines() || ranks.size == 1);
  }
  /// Whether what was combined becomes the values of this rank.
  [[nodiscard]] bool has_result(Ranks ranks) const noexcept {
    if (layout().schedule == Schedule::exscan) return ranks.rank != 0;
    return layout().combines() && layout().gets(ranks.rank == root);
  }
  /// The same at all ranks that agree.
  [[nodiscard]] std::uint32_t signature() const noexcept;
  /// Whether this call goes on with `other`.
  [[nodiscard]] bool goes_on_with(Call const& other) const noexcept;
  /// Which call of `team` it is, for people: the one that the team has counted last.
  [[nodiscard]] std::string text(Membership const& team) const;
};

}  // namespace lend::group
