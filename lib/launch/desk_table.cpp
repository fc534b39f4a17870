// SPDX-License-Identifier: MIT OR Apache-2.0
// The rules of a desk. Any thread.
#include <base/printable.hpp>
#include <launch/desk_table.hpp>

#include <algorithm>
#include <limits>

namespace lend::launch {

namespace {

// As many groups after it have numbers above it.
constexpr std::uint32_t generation_max = std::numeric_limits<std::uint32_t>::max() / 2;

std::string number(std::uint32_t value) {
  return std::to_string(value);
}

network::Status refuse(std::string text) {
  return {network::StatusCode::incompatible, std::move(text)};
}

}  // namespace

std::string list_of(std::vector<std::uint32_t> const& ranks) {
  constexpr int ranges_max = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  int ranges = 0;
  for (std::size_t at = 0; at < ranks.size(); ++ranges) {
    if (ranges == ranges_max) return text + " and " + std::to_string(ranks.size() - at) + " more";
    std::size_t last = at;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges > 0) text += ", ";
    text += number(ranks[at]);
    if (last > at) text += (last == at + 1 ? ", " : " to ") + number(ranks[last]);
    at = last + 1;
  }
  return text;
}

network::Status DeskTable::sit(Sit const& sit, std::string holder) {
  auto const rank = number(sit.rank);
  if (sit.group != group_)
    return refuse("is of group \"" + base::shown(sit.group) + "\", the desk of \"" +
                  base::shown(group_) + "\"");
  if (sit.size != size())
    return refuse("is of a group of " + number(sit.size) + " ranks, the desk's has " +
                  number(size()));
  if (sit.rank >= size())
    return refuse("is rank " + rank + ", and the ranks are 0 to " + number(size() - 1));
  if (std::max(sit.coming.generation, sit.coming.seen) > generation_max)
    return refuse("has been in more generations than a group has");
  if (phase_ >= Phase::going) return {network::StatusCode::failed, "came when the group had begun"};
  if (phase_ == Phase::asking && state(sit.rank) == State::empty)
    return {network::StatusCode::failed, "came when the others were about to begin without it"};
  if (state(sit.rank) != State::empty)
    return refuse("is rank " + rank + ", as is " + seats_[sit.rank].holder + ", which sits");
  if (empty_ == size())
    terms_ = sit.terms;
  else if (sit.terms.message_bytes != terms_.message_bytes)
    return refuse("has messages of " + number(sit.terms.message_bytes) + " bytes, the others of " +
                  number(terms_.message_bytes));
  else if (sit.terms.window != terms_.window)
    return refuse("has a window of " + number(sit.terms.window) + ", the others of " +
                  number(terms_.window));
  else if (sit.terms.are_few != terms_.are_few)
    return refuse(sit.terms.are_few ? "has few links, the others have links to all ranks"
                                    : "has links to all ranks, the others have few");
  seats_[sit.rank] = {State::seated, std::move(holder), sit.coming};
  --empty_;
  return {network::StatusCode::agreed, {}};
}

bool DeskTable::offers(std::uint32_t rank) {
  if (state(rank) != State::seated) return false;
  seats_[rank].state = State::offered;
  if (++count_ == size()) propose();
  return true;
}

bool DeskTable::are_enough() const {
  std::uint32_t needed = 0;  // the most that one of them asks for
  for (auto const& seat : seats_) needed = std::max(needed, seat.coming.at_least);
  return phase_ == Phase::collecting && needed != 0 && count_ >= needed;
}

std::uint32_t DeskTable::patience_ms() const {
  std::uint32_t longest = 0;
  for (auto const& seat : seats_) longest = std::max(longest, seat.coming.patience_ms);
  return longest;
}

bool DeskTable::begin_without_the_others() {
  if (!are_enough() || count_ + empty_ < size()) return false;
  propose();
  return true;
}

/// No rank that was asked before is asked with this generation, whichever desk asked it.
void DeskTable::propose() {
  auto generation = members_.generation;
  std::uint32_t latest = 0;  // that one of them was in
  members_ = {.ranks = all_in(State::offered)};
  for (auto const rank : members_.ranks) {
    auto const& coming = seats_[rank].coming;
    generation = std::max({generation, coming.seen, coming.generation});
    if (coming.generation == 0 || coming.generation < latest) continue;
    bool const is_first = coming.generation > latest;
    latest = coming.generation;
    members_.finished_by_all =
        is_first ? coming.finished : std::min(members_.finished_by_all, coming.finished);
  }
  members_.generation = generation + 1;
  move_all(State::offered, State::asked);
  phase_ = Phase::asking;
  count_ = static_cast<std::uint32_t>(members_.ranks.size());
}

bool DeskTable::is_ready(std::uint32_t rank) {
  // It said so before it learned that its cards were withdrawn.
  if (state(rank) == State::seated) return true;
  if (state(rank) != State::asked) return false;
  seats_[rank].state = State::ready;
  if (--count_ > 0) return true;
  phase_ = Phase::going;
  count_ = static_cast<std::uint32_t>(members_.ranks.size());
  return true;
}

void DeskTable::tell(std::uint32_t rank) {
  if (state(rank) != State::ready) return;
  seats_[rank].state = State::told;
  end_if_all_are_told();
}

bool DeskTable::leaves(std::uint32_t rank, std::string const& why) {
  auto const left = std::exchange(seats_[rank], {});
  last_left_ = "rank " + number(rank) + " (" + left.holder + ") " + why;
  if (phase_ == Phase::going && left.state == State::ready) end_if_all_are_told();
  if (phase_ >= Phase::going) return false;
  ++empty_;
  if (phase_ == Phase::collecting) {
    count_ -= left.state == State::offered;
    return false;
  }
  move_all(State::asked, State::seated);
  move_all(State::ready, State::seated);
  phase_ = Phase::collecting;
  count_ = 0;
  return true;
}

void DeskTable::end_if_all_are_told() {
  if (--count_ == 0) phase_ = Phase::over;
}

std::string DeskTable::awaited() const {
  std::string text;
  auto const add = [&](State state, char const* of_one, char const* of_several) {
    auto const ranks = all_in(state);
    if (ranks.empty()) return;
    if (!text.empty()) text += "; ";
    text += list_of(ranks) + " " + (ranks.size() == 1 ? of_one : of_several);
  };
  add(State::empty, "has not come", "have not come");
  add(State::seated, "has handed in no endpoints", "have handed in no endpoints");
  add(State::asked, "has not connected", "have not connected");
  if (!last_left_.empty()) text += "; " + last_left_;
  return text;
}

std::vector<std::uint32_t> DeskTable::all_in(State state) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < size(); ++rank)
    if (seats_[rank].state == state) ranks.push_back(rank);
  return ranks;
}

void DeskTable::move_all(State from, State to) {
  for (auto& seat : seats_)
    if (seat.state == from) seat.state = to;
}

}  // namespace lend::launch
