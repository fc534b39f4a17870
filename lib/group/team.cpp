// SPDX-License-Identifier: MIT OR Apache-2.0
// The blocking calls. The thread of the group.
#include <group/checked_call.hpp>
#include <group/group_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/group/team.hpp>

#include <utility>

namespace lend {

using group::Call;
using group::CheckedCalls;
using group::Combining;
using group::GroupState;
using group::Membership;
using group::Ranks;

Team::Team(std::shared_ptr<GroupState> state, Membership& membership) noexcept
    : state_{std::move(state)}, membership_{&membership} {}
Team::Team(Team&&) noexcept = default;
Team& Team::operator=(Team&&) noexcept = default;
Team::~Team() = default;

GroupState& Team::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a Group or Team was used after it had been moved from");
  return *state_;
}

std::uint32_t Team::rank() const noexcept {
  return ranks().rank;
}
std::uint32_t Team::size() const noexcept {
  return ranks().size;
}
std::span<std::uint32_t const> Team::members() const noexcept {
  static_cast<void>(state());
  return membership_->members;
}
std::span<std::uint32_t const> Team::missing() const noexcept {
  return state().missing();
}
std::optional<std::uint32_t> Team::lost_rank() const noexcept {
  return state().lost_rank();
}
Error const* Team::first_cause() const noexcept {
  return state().first_cause();
}
Ranks const& Team::ranks() const noexcept {
  static_cast<void>(state());
  return membership_->ranks;
}
CheckedCalls Team::checked(SourceLine where) const noexcept {
  return {ranks(), state().options(), where};
}
Result<void> Team::run(Result<Call> const& call, Deadline deadline) noexcept {
  if (call.has_error()) return call.error();
  return state().run(*membership_, call.value(), deadline);
}

Result<void> Team::barrier(Deadline deadline, SourceLine where) noexcept {
  return run(checked(where).barrier(), deadline);
}

Result<void> Team::broadcast_bytes(std::uint32_t root, std::span<std::byte> values,
                                   Deadline deadline, SourceLine where) noexcept {
  return run(checked(where).broadcast(root, values), deadline);
}

Result<void> Team::gather_bytes(std::uint32_t root, std::span<std::byte const> own,
                                std::span<std::byte> all, Deadline deadline,
                                SourceLine where) noexcept {
  return run(checked(where).gather(root, own, all), deadline);
}

Result<void> Team::scatter_bytes(std::uint32_t root, std::span<std::byte const> all,
                                 std::span<std::byte> own, Deadline deadline,
                                 SourceLine where) noexcept {
  return run(checked(where).scatter(root, all, own), deadline);
}

Result<void> Team::allgather_bytes(std::span<std::byte const> own, std::span<std::byte> all,
                                   Deadline deadline, SourceLine where) noexcept {
  return run(checked(where).allgather(own, all), deadline);
}

Result<void> Team::all_to_all_bytes(std::span<std::byte const> from, std::span<std::byte> to,
                                    std::size_t element_bytes, Deadline deadline,
                                    SourceLine where) noexcept {
  return run(checked(where).all_to_all(from, to, element_bytes), deadline);
}

Result<void> Team::reduce_bytes(std::uint32_t root, Combining op, std::span<std::byte> values,
                                Deadline deadline, SourceLine where) noexcept {
  return run(checked(where).reduce(root, op, values), deadline);
}

Result<void> Team::allreduce_bytes(Combining op, std::span<std::byte> values, Deadline deadline,
                                   SourceLine where) noexcept {
  return run(checked(where).allreduce(op, values), deadline);
}

Result<void> Team::allreduce_value(Combining op, std::span<std::byte> value, Deadline deadline,
                                   SourceLine where) noexcept {
  LEND_TRY(call, checked(where).allreduce(op, value));
  return state().run_on_value(*membership_, call, value, deadline);
}

Result<void> Team::reduce_scatter_bytes(Combining op, std::span<std::byte const> values,
                                        std::span<std::byte> own, Deadline deadline,
                                        SourceLine where) noexcept {
  return run(checked(where).reduce_scatter(op, values, own), deadline);
}

}  // namespace lend
