// SPDX-License-Identifier: MIT OR Apache-2.0
// What calls of few bytes do at one rank, found out once and kept. The thread of the group.
#pragma once

#include <group/schedule/collective.hpp>
#include <group/schedule/schedule.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lend::group {

class Link;
struct Call;

/// The steps of all rounds of a call, in a row: those of schedule.hpp.
struct ShortPlan {
  struct ShortStep {
    Link* link = nullptr;  ///< null: no message
    std::uint32_t block = 0;
    Step::Kind kind{};
    Step::Place place{};
    std::uint16_t round = 0;
  };

  // Of which calls.
  Collective collective{};
  std::uint32_t root = 0;
  std::size_t block_bytes = 0, element_bytes = 0;
  std::string op{};

  std::uint32_t signature = 0;
  std::size_t elements = 0;
  bool is_stored = false;       ///< all its messages can be stored
  bool combines_own = false;    ///< Layout::combines_own()
  bool keeps_own_part = false;  ///< Call::keeps_own_part()
  bool has_result = false;      ///< Call::has_result()
  std::vector<ShortStep> steps{};

  [[nodiscard]] bool is_of(Call const& call) const noexcept;
};

/// Those of a team, of which a program that makes more kinds of calls keeps the latest.
class ShortPlans {
 public:
  /// Null: there is none.
  [[nodiscard]] ShortPlan const* find(Call const& call) const noexcept {
    for (ShortPlan const& plan : plans_)
      if (plan.is_of(call)) return &plan;
    return nullptr;
  }
  /// Where there are many already, in the place of the oldest. May throw std::bad_alloc.
  ShortPlan const& add(ShortPlan plan);

 private:
  static constexpr std::size_t plans_max = 16;

  std::vector<ShortPlan> plans_{};
  std::size_t next_ = 0;
};

}  // namespace lend::group
