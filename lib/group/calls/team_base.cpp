// SPDX-License-Identifier: MIT OR Apache-2.0
// The ranks of a team, and the one way of all its calls. The thread of the group.
#include <group/calls/checked_call.hpp>
#include <group/state/group_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/group/team_base.hpp>

#include <utility>

namespace lend {

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
  return state().calls().arrivals().missing();
}
std::optional<std::uint32_t> TeamBase::lost_rank() const noexcept {
  return state().failure().lost_rank();
}
Error const* TeamBase::first_cause() const noexcept {
  return state().failure().cause();
}
Ranks const& TeamBase::ranks() const noexcept {
  static_cast<void>(state());
  return membership_->ranks;
}
Result<void> TeamBase::call(group::GivenCall const& given, Deadline deadline,
                            SourceLine where) noexcept {
  auto& group = state();
  group::CheckedCall checked{given, where};
  LEND_TRYV(checked.check(*membership_, group.links().options()));
  if (given.in.is_one || given.out.is_one)
    return group.calls().run_on_value(*membership_, checked.get(), deadline);
  if (given.in.lent.region == nullptr && given.out.lent.region == nullptr)
    return group.calls().run(*membership_, checked.get(), deadline);
  return group.calls().run_lent(*membership_, checked.get(), given.in.lent, given.out.lent,
                                deadline);
}

}  // namespace lend
