// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <channel/work/access.hpp>
#include <group/calls/checked_call.hpp>
#include <group/state/group_state.hpp>
#include <lend/group/group_scope.hpp>

namespace lend {

using group::Call;
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
  return state_->poll(id_);
}

Result<void> PendingCollective::wait(Deadline deadline) noexcept {
  if (state_ == nullptr) return collective_is_stale();
  return state_->wait_for(id_, deadline, "; it is still under way: wait again");
}

GroupScope::GroupScope(Team& team) noexcept : membership_{team.membership_} {
  static_cast<void>(team.state());  // stops where it was moved from
  state_ = team.state_;
}

GroupScope::~GroupScope() {
  if (has_ended_ || last_ == 0) return;
  Deadline const until = drain_bound_.of_end(drain_max);
  static_cast<void>(state_->drain(
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
  return state_->drain(last_, drain_bound_.of_finish());
}

Result<PendingCollective> GroupScope::post(Result<Call> const& call, GatherElement in,
                                           ScatterElement out) noexcept {
  if (call.has_error()) return call.error();
  if (has_ended_) return group_scope_is_over();
  LEND_TRY(id, state_->post(*membership_, call.value(), in, out));
  last_ = id;
  return PendingCollective{state_, id};
}

group::CheckedCalls GroupScope::checked(SourceLine where) const noexcept {
  return {*membership_, state_->options(), where};
}

Result<PendingCollective> GroupScope::post_barrier(SourceLine where) noexcept {
  return post(checked(where).barrier(), {}, {});
}

Result<PendingCollective> GroupScope::post_broadcast(std::uint32_t root, ScatterElement values,
                                                     SourceLine where) noexcept {
  LEND_TRY(place, group::bytes_of(values));
  return post(checked(where).broadcast(root, place), {}, values);
}

Result<PendingCollective> GroupScope::post_gather(std::uint32_t root, GatherElement own,
                                                  ScatterElement all, SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(own));
  LEND_TRY(place, group::bytes_of(all));
  return post(checked(where).gather(root, bytes, place), own, all);
}

Result<PendingCollective> GroupScope::post_scatter(std::uint32_t root, GatherElement all,
                                                   ScatterElement own, SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(all));
  LEND_TRY(place, group::bytes_of(own));
  return post(checked(where).scatter(root, bytes, place), all, own);
}

Result<PendingCollective> GroupScope::post_allgather(GatherElement own, ScatterElement all,
                                                     SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(own));
  LEND_TRY(place, group::bytes_of(all));
  return post(checked(where).allgather(bytes, place), own, all);
}

Result<PendingCollective> GroupScope::post_all_to_all(GatherElement from, ScatterElement to,
                                                      SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(from));
  LEND_TRY(place, group::bytes_of(to));
  return post(checked(where).all_to_all(bytes, place, 1), from, to);
}

Result<PendingCollective> GroupScope::post_gatherv(std::uint32_t root, GatherElement own,
                                                   Counts counts, ScatterElement all,
                                                   SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(own));
  LEND_TRY(place, group::bytes_of(all));
  return post(checked(where).gatherv(root, bytes, {.out = counts}, place), own, all);
}

Result<PendingCollective> GroupScope::post_scatterv(std::uint32_t root, GatherElement all,
                                                    Counts counts, ScatterElement own,
                                                    SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(all));
  LEND_TRY(place, group::bytes_of(own));
  return post(checked(where).scatterv(root, bytes, {.in = counts}, place), all, own);
}

Result<PendingCollective> GroupScope::post_allgatherv(GatherElement own, Counts counts,
                                                      ScatterElement all,
                                                      SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(own));
  LEND_TRY(place, group::bytes_of(all));
  return post(checked(where).allgatherv(bytes, {.out = counts}, place), own, all);
}

Result<PendingCollective> GroupScope::post_all_to_allv(GatherElement from, Counts sent,
                                                       ScatterElement to, Counts received,
                                                       SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(from));
  LEND_TRY(place, group::bytes_of(to));
  return post(checked(where).all_to_allv(bytes, {.in = sent, .out = received}, place), from, to);
}

Result<PendingCollective> GroupScope::post_prefix(bool is_exclusive, group::Combining op,
                                                  ScatterElement values,
                                                  SourceLine where) noexcept {
  LEND_TRY(place, group::bytes_of(values));
  auto const kind = is_exclusive ? group::Collective::exscan : group::Collective::scan;
  return post(checked(where).scan(kind, op, place), {}, values);
}

Result<PendingCollective> GroupScope::post_reduction(std::optional<std::uint32_t> root,
                                                     group::Combining op, ScatterElement values,
                                                     SourceLine where) noexcept {
  LEND_TRY(place, group::bytes_of(values));
  auto const calls = checked(where);
  return post(root ? calls.reduce(*root, op, place) : calls.allreduce(op, place), {}, values);
}

Result<PendingCollective> GroupScope::post_scattered_reduction(group::Combining op,
                                                               GatherElement values,
                                                               ScatterElement own,
                                                               SourceLine where) noexcept {
  LEND_TRY(bytes, group::bytes_of(values));
  LEND_TRY(place, group::bytes_of(own));
  return post(checked(where).reduce_scatter(op, bytes, place), values, own);
}

}  // namespace lend
