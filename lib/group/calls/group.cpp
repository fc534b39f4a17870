// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/state/group_state.hpp>
#include <lend/group/group.hpp>

#include <utility>

namespace lend {

Group::Group(std::shared_ptr<group::GroupState> state) noexcept
    : Team{state, state->teams().whole()} {}
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
  if (state().has_left()) return state().why_unusable();
  LEND_TRY(membership, state().teams().find(members));
  return Team{state_, *membership};
}

void Group::abandon() noexcept {
  state().abandon();
}
void Group::abandon(std::string_view why) noexcept {
  state().abandon(why);
}
Result<void> Group::check() noexcept {
  auto const looked = state().calls().look();
  if (looked.has_error()) return looked.error();
  return success();
}
Result<bool> Group::poll() noexcept {
  return state().calls().look();
}
Result<bool> Group::arm() noexcept {
  return state().calls().arm();
}
int Group::descriptor() const noexcept {
  return state().links().set().descriptor();
}
Deadline Group::look_again() const noexcept {
  return state().calls().arrivals().look_again();
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
