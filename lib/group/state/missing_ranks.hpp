// SPDX-License-Identifier: MIT OR Apache-2.0
// What the records of a team say of one call. Pure: reads nothing. Any thread.
#pragma once

#include <group/link/rank_status.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lend::group {

class MissingRanks {
 public:
  MissingRanks(std::uint32_t team, std::uint32_t number) noexcept : team_{team}, number_{number} {}

  /// A rank of the group, and its record if there is one.
  void add(std::uint32_t rank, std::optional<RankStatus> const& record);
  /// A rank whose group has ended. It may have entered the call before.
  void add_left(std::uint32_t rank) { left_.push_back(rank); }
  /// A rank that was missing when rank `by` looked: it may have come since, so it is not missing().
  void add_reported(std::uint32_t rank, std::uint32_t by);
  [[nodiscard]] bool has_reported() const noexcept { return !reported_.empty(); }
  /// A rank in the call that waits for another, which may itself wait.
  void add_waiting(std::uint32_t rank, std::uint32_t awaited) { waiting_ = {rank, awaited}; }

  /// Those that have not entered the call. A rank that has not answered is not among them.
  [[nodiscard]] std::vector<std::uint32_t> const& missing() const noexcept { return missing_; }
  /// Who is missing and what it is in, for people; empty if none is known.
  [[nodiscard]] std::string text() const;

 private:
  std::uint32_t team_, number_;
  std::vector<std::uint32_t> missing_{};
  std::vector<std::string> texts_{};                                 // of each
  std::vector<std::pair<std::uint32_t, std::uint32_t>> reported_{};  // ranks, and which rank looked
  std::optional<std::pair<std::uint32_t, std::uint32_t>> waiting_{};
  std::vector<std::uint32_t> silent_{}, left_{};
};

}  // namespace lend::group
