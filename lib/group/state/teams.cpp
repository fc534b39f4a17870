// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes teams, and refuses lists of ranks that are none.
#include <group/state/teams.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace lend::group {

Teams::Teams(Ranks ranks, Neighbours const& neighbours) : ranks_{ranks}, neighbours_{neighbours} {
  Membership whole{.ranks = ranks, .is_whole = true, .has_few_links = neighbours.are_few()};
  for (std::uint32_t rank = 0; rank < ranks.size; ++rank) whole.members.push_back(rank);
  whole.id = Membership::id_of(whole.members);
  all_.push_back(std::make_unique<Membership>(std::move(whole)));
}

Result<Membership*> Teams::find(std::span<std::uint32_t const> members) {
  auto const wrong = [](std::string why) {
    return Error{Errc::invalid_argument, "no such team: " + std::move(why)};
  };
  auto const is_this = [&](auto const& each) { return std::ranges::equal(each->members, members); };
  if (auto const it = std::ranges::find_if(all_, is_this); it != all_.end()) return it->get();

  std::vector<bool> is_member(ranks_.size);
  for (std::uint32_t const rank : members) {
    if (rank >= ranks_.size)
      return wrong("there is no rank " + std::to_string(rank) + ", the ranks are 0 to " +
                   std::to_string(ranks_.size - 1));
    if (is_member[rank]) return wrong("rank " + std::to_string(rank) + " is named twice");
    is_member[rank] = true;
  }
  if (!is_member[ranks_.rank])
    return wrong("this rank, " + std::to_string(ranks_.rank) + ", is not one of its " +
                 std::to_string(members.size()) + " members");
  LEND_TRYV(check_links_of(members));
  auto const own = std::ranges::find(members, ranks_.rank) - members.begin();
  auto const id = Membership::id_of(members);
  // Ranks that share a link are in both teams, if messages of both go over it: each sees the clash.
  if (std::ranges::any_of(all_, [&](auto const& each) { return each->id == id; }))
    return wrong(
        "its number is that of another team of this rank; name the ranks in another order");
  all_.push_back(std::make_unique<Membership>(Membership{
      .members{members.begin(), members.end()},
      .ranks{static_cast<std::uint32_t>(own), static_cast<std::uint32_t>(members.size())},
      .id = id}));
  return all_.back().get();
}

Result<void> Teams::check_links_of(std::span<std::uint32_t const> members) const {
  if (!neighbours_.are_few()) return success();
  for (auto const one : members)
    for (auto const other : members)
      if (one < other && !neighbours_.are_linked(one, other))
        return Error{Errc::invalid_argument,
                     "no such team: ranks " + std::to_string(one) + " and " +
                         std::to_string(other) +
                         " have no link, and all members need one to each other; make the group "
                         "with GroupLinks::all"};
  return success();
}

}  // namespace lend::group
