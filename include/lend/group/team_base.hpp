// SPDX-License-Identifier: MIT OR Apache-2.0
// What a Team is without its calls: ranks, and what became of them. One thread at a time, together
// with its group.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/group/values.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace lend {

namespace group {
class GroupState;
struct Membership;
struct Ranks;
}  // namespace group

/// Base of Team.
class LEND_EXPORT TeamBase {
 public:
  /// Of this process, in the team.
  [[nodiscard]] std::uint32_t rank() const noexcept;
  [[nodiscard]] std::uint32_t size() const noexcept;
  /// Ranks of the group, in the order of ranks of the team.
  [[nodiscard]] std::span<std::uint32_t const> members() const noexcept LEND_LIFETIMEBOUND;

  /// Ranks of the group that had not entered the call of this group that timed out last, of
  /// those that have a link to this one, in the order of its team; empty if that is not known.
  /// Until the next call.
  [[nodiscard]] std::span<std::uint32_t const> missing() const noexcept LEND_LIFETIMEBOUND;
  /// The rank of the group that died or left, if that broke it: the same at all others, unless
  /// several were lost at once. None where a rank that lives broke it.
  [[nodiscard]] std::optional<std::uint32_t> lost_rank() const noexcept;
  /// What broke the group; null while it works.
  [[nodiscard]] Error const* first_cause() const noexcept;

 protected:
  using Collective = group::Collective;

  TeamBase(TeamBase&&) noexcept;
  TeamBase& operator=(TeamBase&&) noexcept;
  ~TeamBase();
  TeamBase(std::shared_ptr<group::GroupState> state, group::Membership& membership) noexcept;
  [[nodiscard]] group::GroupState& state() const noexcept;  // stops where it was moved from
  /// Checks and carries out a collective.
  [[nodiscard]] Result<void> call(group::GivenCall const& given, Deadline deadline,
                                  SourceLine where) noexcept;

  std::shared_ptr<group::GroupState> state_;
  group::Membership* membership_;  // the state's

 private:
  friend class GroupScope;
  friend class Peers;
  [[nodiscard]] group::Ranks const& ranks() const noexcept;
};

}  // namespace lend
