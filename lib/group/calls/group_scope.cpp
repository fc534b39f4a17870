// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <channel/work/access.hpp>
#include <group/calls/checked_call.hpp>
#include <group/state/group_state.hpp>
#include <lend/group/group_scope.hpp>

namespace lend {

using group::GroupState;

namespace {

Error collective_is_stale() noexcept {
  return Error{Errc::stale_handle, "this PendingCollective was moved from"};
}
Error group_scope_is_over() noexcept {
  return Error{Errc::stale_handle, "the scope has ended"};
}

}  // namespace

PendingCollective::PendingCollective(std::shared_ptr<GroupState> state, std::uint64_t id) noexcept
    : state_{std::move(state)}, id_{id} {}

Result<bool> PendingCollective::poll() noexcept {
  if (state_ == nullptr) return collective_is_stale();
  return state_->calls().poll(id_);
}

Result<void> PendingCollective::wait(Deadline deadline) noexcept {
  if (state_ == nullptr) return collective_is_stale();
  return state_->calls().wait_for(id_, deadline, "; it is still under way: wait again");
}

GroupScope::GroupScope(Team& team) noexcept : membership_{team.membership_} {
  static_cast<void>(team.state());  // stops where it was moved from
  state_ = team.state_;
}

GroupScope::~GroupScope() {
  if (has_ended_ || last_ == 0) return;
  Deadline const until = drain_bound_.of_end(drain_max);
  static_cast<void>(state_->calls().drain(
      last_, unwind_.is_unwinding() ? sooner(until, within(channel::unwinding_bound)) : until));
}

GroupScope& GroupScope::drain_within(std::chrono::nanoseconds bound) noexcept {
  drain_bound_.set(bound);
  return *this;
}
GroupScope& GroupScope::drain_until(Deadline deadline) noexcept {
  drain_bound_.set(deadline);
  return *this;
}

Result<void> GroupScope::finish() noexcept {
  if (std::exchange(has_ended_, true)) return group_scope_is_over();
  if (last_ == 0) return success();
  return state_->calls().drain(last_, drain_bound_.of_finish());
}

Result<PendingCollective> GroupScope::post(group::GivenCall const& given,
                                           SourceLine where) noexcept {
  group::CheckedCall checked{given, where};
  LEND_TRYV(checked.check(*membership_, state_->links().options()));
  if (has_ended_) return group_scope_is_over();
  LEND_TRY(id, state_->calls().post(*membership_, checked.get(), given.in.lent, given.out.lent));
  last_ = id;
  return PendingCollective{state_, id};
}

}  // namespace lend
