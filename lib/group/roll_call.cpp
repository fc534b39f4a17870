// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <group/roll_call.hpp>

#include <algorithm>

namespace lend::group {

namespace {

// More would hide the others.
constexpr std::size_t told_max = 8;

}  // namespace

void RollCall::add(std::uint32_t rank, std::optional<Record> const& record) {
  if (!record) {
    silent_.push_back(rank);
    return;
  }
  if (record->has_entered(team_, number_).value_or(true)) return;
  missing_.push_back(rank);
  told_.push_back(record->text());
}

std::string RollCall::text() const {
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
    add("rank " + std::to_string(missing_[i]) + " has not come: it " + told_[i]);
  if (missing_.size() > shown) add(std::to_string(missing_.size() - shown) + " more have not come");
  if (!silent_.empty())
    add("no answer from rank " + std::to_string(silent_.front()) + rest(silent_.size(), 1));
  if (!left_.empty())
    add("rank " + std::to_string(left_.front()) + rest(left_.size(), 1) + " left the group");
  return text;
}

}  // namespace lend::group
