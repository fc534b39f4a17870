// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a team of some ranks computes what a group of them would, teams that share ranks do not
// disturb each other, and no other list than one of ranks is a team. Method: ranks are threads; the
// lists are random.
#include "group/ranks.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <random>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Ranks = std::vector<std::uint32_t>;

/// `count` of the ranks below `size`, in a random order.
Ranks some_of(std::uint32_t size, std::size_t count, std::mt19937_64& random) {
  Ranks ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0u);
  std::ranges::shuffle(ranks, random);
  ranks.resize(count);
  return ranks;
}

/// For threads of ranks, as expect().
Team team_of(Group& group, std::span<std::uint32_t const> list) {
  auto team = group.team(list);
  expect(team.has_value(), "team");
  return std::move(team).value();
}

/// What depends on each member's place: gathers the members, and adds them up in parts.
void check_team(Team& team) {
  std::uint32_t const size = team.size(), own = team.members()[team.rank()];
  Ranks const members{team.members().begin(), team.members().end()};
  std::uint32_t const total = std::accumulate(members.begin(), members.end(), 0u);

  auto const sum_of_all = team.allreduce(sum<std::uint32_t>, own, within(patience));
  expect(sum_of_all.has_value() && sum_of_all.value() == total, "allreduce");
  Ranks all(size);
  expect(team.allgather(std::array{own}, all, within(patience)));
  expect(all == members, "allgather");
  std::array<std::uint32_t, 1> from_last{team.rank() == size - 1 ? own : 0};
  expect(team.broadcast(size - 1, from_last, within(patience)));
  expect(from_last[0] == members.back(), "broadcast");
  Ranks from(size, own), to(size);
  expect(team.all_to_all(from, to, within(patience)));
  expect(to == members, "all_to_all");
  std::array<std::uint32_t, 1> reduced{};
  expect(team.reduce_scatter(sum<std::uint32_t>, from, reduced, within(patience)));
  expect(reduced[0] == total, "reduce_scatter");
  Ranks gathered(team.rank() == 0 ? size : 0);
  expect(team.gather(0, std::array{own}, gathered, within(patience)));
  expect(team.rank() != 0 || gathered == members, "gather");
}

}  // namespace

TEST_CASE("a team of any ranks in any order computes what a group of them would", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(1u, 2u, 5u, 16u);
  auto const seed = seeds(1).front();
  std::mt19937_64 random{seed};
  auto ranks = group_of(size);
  for (std::size_t count = 1; count <= size; count += size > 5 ? 3 : 1) {
    Ranks const list = some_of(size, count, random);
    CAPTURE(seed, size, list);
    on_each(ranks, [&list](Group& group) {
      if (std::ranges::find(list, group.rank()) == list.end()) return;
      auto team = team_of(group, list);
      expect(team.members()[team.rank()] == group.rank(), "its place");
      check_team(team);
    });
  }
}

TEST_CASE("teams that share ranks do not take each other's messages", "[group]") {
  if (connects_slowly()) return;
  constexpr std::uint32_t size = 6;
  auto ranks = group_of(size);
  std::array const low{0u, 1u, 2u, 3u}, high{2u, 3u, 4u, 5u}, turned{3u, 2u, 1u, 0u};
  std::atomic<std::uint32_t> come{0};
  on_each(ranks, [&](Group& group) {
    std::uint32_t const own = group.rank();
    for (std::uint32_t i = 0; i < 20; ++i) {
      // Ranks 2 and 3 are in all, and behind: messages of several teams wait for them.
      if (own <= 3) {
        auto team = team_of(group, low);
        auto const got = team.allreduce(sum<std::uint32_t>, own + i, within(patience));
        expect(got.has_value() && got.value() == 6 + 4 * i, "low");
      }
      if (own >= 2) {
        auto team = team_of(group, high);
        auto const got = team.allreduce(sum<std::uint32_t>, own * 10 + i, within(patience));
        expect(got.has_value() && got.value() == 140 + 4 * i, "high");
      }
      if (own <= 3) {
        auto team = team_of(group, turned);
        std::array<std::uint32_t, 1> value{own + i};
        expect(team.broadcast(0, value, within(patience)));
        expect(value[0] == 3 + i, "turned");
      }
      ++come;
      expect(group.barrier(within(patience)));
      expect(come >= (i + 1) * size, "passed early");
    }
  });
}

TEST_CASE("a team's barrier waits for its members, and for no other rank", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(4);
  std::array const members{3u, 1u};
  auto three = must(ranks[3].team(members)), one = must(ranks[1].team(members));

  auto const late = error_naming(1, three, barrier_of(three));
  CHECK(late == Errc::timed_out);
  CHECK_THAT(late.message(), Catch::Contains("barrier 1 of a team of 2 (") &&
                                 Catch::Contains("rank 1 has not come"));
  CHECK(error_of(ranks[3].barrier(within(1ms))) == Errc::invalid_argument);  // another call
  must(one.barrier(within(patience)));
  must(three.barrier(within(patience)));
}

TEST_CASE("the same list is the same team, and that of all ranks is the group", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  std::array const both{0u, 1u}, turned{1u, 0u};
  {
    auto one = must(ranks[0].team(both));
    CHECK(error_of(one.barrier(within(1ms))) == Errc::timed_out);
  }
  must(ranks[1].barrier(within(patience)));  // the group's own
  must(must(ranks[0].team(both)).barrier(within(patience)));
  CHECK(must(ranks[0].team(turned)).rank() == 1);
  on_each(ranks, [&](Group& group) {
    for (int i = 0; i < 3; ++i) expect(team_of(group, turned).barrier(within(patience)));
  });
}

TEST_CASE("what is no team is refused, and nothing was sent", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  auto const why = [&](Ranks const& list) {
    auto const error = error_of(ranks[1].team(list));
    CHECK(error == Errc::invalid_argument);
    return error.message();
  };
  CHECK_THAT(why({}), Catch::Contains("this rank, 1, is not one of its 0 members"));
  CHECK_THAT(why({0, 2}), Catch::Contains("this rank, 1, is not one of its 2 members"));
  CHECK_THAT(why({1, 0, 1}), Catch::Contains("rank 1 is named twice"));
  CHECK_THAT(why({1, 3}), Catch::Contains("there is no rank 3, the ranks are 0 to 2"));
  std::array const members{1u, 2u};
  auto team = must(ranks[1].team(members));
  std::array<int, 1> value{};
  CHECK_THAT(error_of(team.broadcast(2, value)).message(), Catch::Contains("no rank 2"));
  on_each(ranks, [](Group& group) { expect(group.barrier(within(patience))); });
}

TEST_CASE("two teams whose numbers clash are not both made", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(9);
  // Found by trying: the hashes of these lists are the same.
  std::array const one{0u, 2u, 8u, 4u, 3u, 6u, 1u, 7u, 5u},
      other{0u, 5u, 6u, 1u, 8u, 4u, 3u, 7u, 2u};
  static_cast<void>(must(ranks[0].team(one)));
  auto const error = error_of(ranks[0].team(other));
  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains("another order"));
}

TEST_CASE("ranks that make different calls of a team are told both", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  std::array const members{2u, 0u};
  auto two = must(ranks[2].team(members)), zero = must(ranks[0].team(members));
  CHECK(error_of(two.barrier(within(1ms))) == Errc::timed_out);
  auto const error = error_of(zero.allreduce(sum<int>, 1, within(patience)));
  CHECK(error == Errc::disagreement);
  CHECK_THAT(error.message(), Catch::Contains("rank 2 called barrier as its call 1"));
}

TEST_CASE("a team whose group has ended says so", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  std::array const both{1u, 0u};
  auto team = must(ranks[0].team(both));
  on_each(ranks, [&](Group& group) { expect(group.barrier(within(patience))); });
  ranks.clear();
  CHECK(error_of(team.barrier(within(1ms))) == Errc::stale_handle);
  CHECK(team.size() == 2);
}
