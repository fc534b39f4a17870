// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/group_state.hpp>
#include <lend/group/group.hpp>

#include <utility>

namespace lend {

Group::Group(std::shared_ptr<group::GroupState> state) noexcept : Team{state, state->whole()} {}
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&& other) noexcept {
  Group old{std::move(*this)};
  Team::operator=(std::move(other));
  return *this;
}
Group::~Group() {
  if (state_ != nullptr) state_->leave();
}

Result<Team> Group::team(std::span<std::uint32_t const> members) {
  LEND_TRY(membership, state().team(members));
  return Team{state_, *membership};
}

void Group::abandon() noexcept {
  state().abandon();
}
std::uint32_t Group::generation() const noexcept {
  return state().history().generation;
}
std::uint64_t Group::finished() const noexcept {
  return state().history().finished;
}
std::uint64_t Group::finished_by_all() const noexcept {
  return state().history().finished_by_all;
}

}  // namespace lend
