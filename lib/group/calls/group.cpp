// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/state/group_state.hpp>
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
void Group::abandon(std::string_view why) noexcept {
  state().abandon(why);
}
Result<void> Group::check() noexcept {
  auto const looked = state().look();
  if (looked.has_error()) return looked.error();
  return success();
}
Result<bool> Group::poll() noexcept {
  return state().look();
}
Result<bool> Group::arm() noexcept {
  return state().arm();
}
int Group::descriptor() const noexcept {
  return state().descriptor();
}
Deadline Group::look_again() const noexcept {
  return state().look_again();
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
