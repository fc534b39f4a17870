// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <group/state/missing_ranks.hpp>

#include <algorithm>
#include <span>

namespace lend::group {

namespace {

// More would hide the others.
constexpr std::size_t told_max = 8;

}  // namespace

void MissingRanks::add(std::uint32_t rank, std::optional<RankStatus> const& record) {
  if (!record) {
    silent_.push_back(rank);
    return;
  }
  if (record->has_entered(team_, number_).value_or(true)) return;
  missing_.push_back(rank);
  texts_.push_back(record->text());
}

void MissingRanks::add_reported(std::uint32_t rank, std::uint32_t by) {
  auto const is_heard = [rank](auto const& each) { return each.first == rank; };
  if (std::ranges::none_of(reported_, is_heard)) reported_.emplace_back(rank, by);
}

std::string MissingRanks::text() const {
  std::string text;
  auto const add = [&text](std::string const& clause) {
    if (!text.empty()) text += ", ";
    text += clause;
  };
  auto const rest = [](std::size_t all, std::size_t shown) {
    return all > shown ? " and " + std::to_string(all - shown) + " more" : std::string{};
  };
  auto const shown = std::min(missing_.size(), told_max);
  for (std::size_t i = 0; i < shown; ++i)
    add("rank " + std::to_string(missing_[i]) + " has not come: it " + texts_[i]);
  if (missing_.size() > shown) add(std::to_string(missing_.size() - shown) + " more have not come");
  for (auto const& [rank, by] : std::span{reported_}.first(std::min(reported_.size(), told_max)))
    add("rank " + std::to_string(rank) + " had not come when rank " + std::to_string(by) +
        " looked");
  if (waiting_)
    add("rank " + std::to_string(waiting_->first) + " waits for rank " +
        std::to_string(waiting_->second));
  if (!silent_.empty())
    add("no answer from rank " + std::to_string(silent_.front()) + rest(silent_.size(), 1));
  if (!left_.empty())
    add("rank " + std::to_string(left_.front()) + rest(left_.size(), 1) + " left the group");
  return text;
}

}  // namespace lend::group
