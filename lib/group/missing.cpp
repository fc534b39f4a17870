// SPDX-License-Identifier: MIT OR Apache-2.0
// Which ranks are missing in a call, by the records of those that have links. The thread of the
// group.
#include <group/group_state.hpp>

#include <algorithm>

namespace lend::group {

namespace {

// Devices answer in microseconds; one that is gone does not.
constexpr std::chrono::milliseconds roll_call_bound{50};
constexpr int roll_call_tries = 3;

}  // namespace

Result<std::string> GroupState::call_the_roll() noexcept {
  auto const& members = call_.team().members;
  // Those without a whole record: a device may have read it in the middle of a change.
  auto const ask = [&] {
    bool has_asked = false;
    for (std::uint32_t const rank : members)
      if (links_[rank] != nullptr && !links_[rank]->answer()) has_asked |= links_[rank]->ask();
    return has_asked;
  };
  auto const has_answer = [this](std::uint32_t rank) {
    return links_[rank] == nullptr || links_[rank]->has_answer();
  };
  for (std::uint32_t const rank : members)
    if (links_[rank] != nullptr) links_[rank]->forget_answer();
  Deadline const deadline = within(roll_call_bound);
  for (int tries = 0; tries < roll_call_tries && ask(); ++tries)
    while (!std::ranges::all_of(members, has_answer)) {
      auto const ready = set_.wait(ready_, deadline);
      if (!ready.has_value()) {
        tries = roll_call_tries;
        break;
      }
      LEND_TRYV(take_news(ready.value()));
    }

  RollCall roll{call_.team().id, call_.team().number};
  for (std::uint32_t const rank : members) {
    if (links_[rank] == nullptr) continue;
    if (links_[rank]->peer_has_left())
      roll.add_left(rank);
    else
      roll.add(rank, links_[rank]->answer());
  }
  if (neighbours_.are_few()) {
    // Only what it has seen itself: hearsay that two ranks have of each other would never end.
    record_.set_missing(roll.missing());
    if (roll.missing().empty()) add_hearsay(roll);
  }
  missing_ = roll.missing();
  return roll.text();
}

void GroupState::add_hearsay(RollCall& roll) const {
  auto const awaited_by = [this](std::uint32_t rank) -> std::optional<Record::Awaited> {
    if (links_[rank] == nullptr) return {};
    auto const record = links_[rank]->answer();
    if (!record) return {};
    auto const awaited = record->awaited_in(call_.team().id, call_.team().number);
    return awaited && awaited->rank < ranks_.size ? awaited : std::nullopt;
  };
  for (auto const rank : linked_)
    if (auto const awaited = awaited_by(rank); awaited && awaited->is_missing)
      if (!neighbours_.are_linked(ranks_.rank, awaited->rank) && awaited->rank != ranks_.rank)
        roll.add_hearsay(awaited->rank, rank);
  if (roll.has_hearsay()) return;
  // The rank that this one waits for waits for another, and so on: as far as links lead.
  auto last = call_.awaited();
  auto next = awaited_by(last);
  for (std::size_t i = 0; i < linked_.size() && next; ++i) {
    if (links_[next->rank] == nullptr && next->rank != ranks_.rank)
      return roll.add_waiting(last, next->rank);
    last = next->rank;
    next = awaited_by(last);
  }
}

}  // namespace lend::group
