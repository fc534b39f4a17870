// SPDX-License-Identifier: MIT OR Apache-2.0
// The teams of a group at one rank. The thread of the group.
#pragma once

#include <group/schedule/neighbours.hpp>
#include <group/values/call.hpp>
#include <lend/base/result.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lend::group {

class Teams {
 public:
  Teams(Ranks ranks, Neighbours const& neighbours);

  /// The team of all ranks.
  [[nodiscard]] Membership& whole() const noexcept { return *all_.front(); }
  /// The team of these ranks, which is always the same.
  /// Errors:  invalid_argument  no such team.
  [[nodiscard]] Result<Membership*> find(std::span<std::uint32_t const> members);

 private:
  /// All members find the same, so that none waits for another that was refused.
  [[nodiscard]] Result<void> check_links_of(std::span<std::uint32_t const> members) const;

  Ranks ranks_;
  Neighbours neighbours_;
  std::vector<std::unique_ptr<Membership>> all_{};  // the first is that of all ranks
};

}  // namespace lend::group
