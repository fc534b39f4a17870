// SPDX-License-Identifier: MIT OR Apache-2.0
// Ranks of a team, and how its calls begin. The thread of the group.
#include <group/calls/checked_call.hpp>
#include <group/state/group_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/group/team_base.hpp>

#include <utility>

namespace lend {

using group::Call;
using group::CheckedCalls;
using group::GroupState;
using group::Membership;
using group::Ranks;

TeamBase::TeamBase(std::shared_ptr<GroupState> state, Membership& membership) noexcept
    : state_{std::move(state)}, membership_{&membership} {}
TeamBase::TeamBase(TeamBase&&) noexcept = default;
TeamBase& TeamBase::operator=(TeamBase&&) noexcept = default;
TeamBase::~TeamBase() = default;

GroupState& TeamBase::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a Group or Team was used after it had been moved from");
  return *state_;
}

std::uint32_t TeamBase::rank() const noexcept {
  return ranks().rank;
}
std::uint32_t TeamBase::size() const noexcept {
  return ranks().size;
}
std::span<std::uint32_t const> TeamBase::members() const noexcept {
  static_cast<void>(state());
  return membership_->members;
}
std::span<std::uint32_t const> TeamBase::missing() const noexcept {
  return state().missing();
}
std::optional<std::uint32_t> TeamBase::lost_rank() const noexcept {
  return state().lost_rank();
}
Error const* TeamBase::first_cause() const noexcept {
  return state().first_cause();
}
Ranks const& TeamBase::ranks() const noexcept {
  static_cast<void>(state());
  return membership_->ranks;
}
CheckedCalls TeamBase::checked(SourceLine where) const noexcept {
  auto const& options = state().options();
  return {*membership_, options, where};
}
Result<void> TeamBase::run(Result<Call> const& call, GatherElement in, ScatterElement out,
                           Deadline deadline) noexcept {
  if (call.has_error()) return call.error();
  if (in.region == nullptr && out.region == nullptr)
    return state().run(*membership_, call.value(), deadline);
  return state().run_lent(*membership_, call.value(), in, out, deadline);
}

}  // namespace lend
