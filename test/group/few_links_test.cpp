// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks that have few links learn of late, lost and disagreeing ranks without one to them,
// and what needs more links is refused before anything is sent. Method: ranks on one thread, or one
// each.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <string>

#include "group/ranks.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

GroupOptions const few_links{.links = GroupLinks::few};

/// Whether these ranks of `size` have a link.
bool are_linked(std::uint32_t one, std::uint32_t other, std::uint32_t size) {
  auto const apart = one < other ? other - one : one - other;
  auto const is_power = [](std::uint32_t n) { return n != 0 && (n & (n - 1)) == 0; };
  return is_power(apart) || is_power(size - apart);
}

}  // namespace

TEST_CASE("a rank has cards for its links, and for no other rank", "[group]") {
  if (connects_slowly()) return;
  ProtectionDomain const domain = must(open_test_device().allocate_protection_domain());
  auto const prepared = must(PreparedGroup::prepare(domain, 3, 11, few_links));
  for (std::uint32_t rank = 0; rank < 11; ++rank)
    CHECK((prepared.cards()[rank] != RankCard{}) == are_linked(3, rank, 11));
}

TEST_CASE("a rank that is missing is named by those that have a link to it, and then by theirs",
          "[group]") {
  if (connects_slowly()) return;
  constexpr std::uint32_t size = 11, late = 4;
  auto ranks = group_of(size, few_links);
  on_each(ranks, [](Group& group) { expect(group.barrier(within(60s))); });
  auto const call = [](Group& group) {
    return error_saying_enough(barrier_of(group), [&](Error const& error) {
      return error != Errc::timed_out || !group.missing().empty() || says(error, " looked");
    });
  };
  for (Group& group : ranks)
    if (group.rank() != late) static_cast<void>(error_of(group.barrier(within(1ms))));

  std::vector<std::uint32_t> unlinked;
  for (Group& group : ranks) {
    if (group.rank() == late) continue;
    if (!are_linked(group.rank(), late, size)) {
      unlinked.push_back(group.rank());
      continue;
    }
    auto const error = call(group);
    CAPTURE(group.rank(), error.message());
    CHECK(std::ranges::equal(group.missing(), std::array{late}));
    CHECK(says(error, "rank 4 has not come: it is in no call since barrier 1 ("));
  }
  REQUIRE(!unlinked.empty());
  for (auto const rank : unlinked) {
    auto const error = call(ranks[rank]);
    CAPTURE(rank, error.message());
    CHECK(ranks[rank].missing().empty());  // it may have come since
    CHECK(says(error, "rank 4 had not come when rank "));
  }
  on_each(ranks, [](Group& group) { expect(group.barrier(within(60s))); });
}

TEST_CASE("where no link leads to what is missing, the rank at the end of the chain is named",
          "[group]") {
  if (connects_slowly()) return;
  constexpr std::uint32_t size = 11;
  auto ranks = group_of(size, few_links);
  // Rank 0 waits for rank 10, which waits for rank 9; that has a link to rank 8 and rank 1.
  for (std::uint32_t const rank : {1u, 2u, 4u, 7u, 8u, 9u, 10u, 3u})
    CHECK(error_of(ranks[rank].barrier(within(0s))) == Errc::timed_out);
  auto const error = error_saying_enough(
      barrier_of(ranks[0]), [](Error const& so_far) { return says(so_far, " waits for rank "); });
  CAPTURE(error.message());
  CHECK(error == Errc::timed_out);
  CHECK(ranks[0].missing().empty());
  CHECK(says(error, " waits for rank "));
  on_each(ranks, [](Group& group) { expect(group.barrier(within(60s))); });
}

TEST_CASE("a rank that ends in the middle of a call is named by those without a link to it, too",
          "[group]") {
  if (connects_slowly()) return;
  std::uint32_t const size = 11, lost = 4;
  GroupOptions options = few_links;
  options.keep_alive = 0s;  // only the ranks' word can tell
  auto ranks = group_of(size, options);
  CHECK(error_of(ranks[lost].barrier(within(0s))) == Errc::timed_out);
  ranks.erase(ranks.begin() + lost);
  on_each(ranks, [=](Group& group) {
    auto const met = group.barrier(within(60s));
    expect(!met && met.error() == Errc::peer_lost, "not lost");
    expect(group.lost_rank() == lost, "another is named");
  });
}

TEST_CASE("a rank that has left is named by those without a link to it when it is needed",
          "[group]") {
  if (connects_slowly()) return;
  std::uint32_t const size = 6, left = 4;
  auto ranks = group_of(size, few_links);
  on_each(ranks, [](Group& group) { expect(group.barrier(within(60s))); });
  ranks.erase(ranks.begin() + left);
  on_each(ranks, [=](Group& group) {
    std::vector<int> own{1}, all(size);
    auto const met = group.allgather(own, all, within(60s));
    expect(!met && met.error() == Errc::peer_lost, "not missed");
    expect(group.lost_rank() == left, "another is named");
  });
}

TEST_CASE("where ranks make different calls, all others learn it in hops", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(11, few_links);
  on_each(ranks, [](Group& group) {
    std::vector<int> own{1}, all(group.rank() == 0 ? 11 : 0);
    auto const called = group.rank() == 5 ? group.barrier(within(60s))
                                          : group.allreduce(sum<int>, own, within(60s));
    expect(!called && called.error() == Errc::disagreement, "no disagreement");
  });
}

TEST_CASE("a team whose members have no links is refused, by each of them", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(8, few_links);
  std::array const unlinked{0u, 4u, 3u}, linked{0u, 2u, 1u};
  for (auto const rank : unlinked) {
    auto const error = error_of(ranks[rank].team(unlinked));
    CHECK(error == Errc::invalid_argument);
    CHECK(says(error, "ranks 0 and 3 have no link"));
    CHECK(says(error, "GroupLinks::all"));
  }
  on_each(ranks, [&](Group& group) {
    if (group.rank() <= 2) {
      auto team = group.team(linked);
      expect(team.has_value(), "a team whose members have links");
      std::array<std::uint32_t, 1> const own{group.rank()};
      std::array<std::uint32_t, 3> all{};
      expect(team.value().allgather(own, all, within(60s)));
      expect(all == linked, "other members");
    }
    expect(group.barrier(within(60s)));
  });
}

TEST_CASE("ranks with few links join at a desk, and rejoin when all have come", "[group]") {
  if (connects_slowly()) return;
  constexpr std::uint32_t size = 6;
  auto const desk = desk_name();
  auto const seat_of = [&](std::uint32_t rank) {
    return Seat{.rank = rank, .size = size, .desk = desk};
  };
  std::atomic<std::uint32_t> next{0};
  std::vector<ProtectionDomain> domains;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    domains.push_back(must(open_test_device().allocate_protection_domain()));
  std::vector<Group> ranks = group_of(size, few_links);  // each thread's is replaced
  on_each(ranks, [&](Group& group) {
    auto const rank = next++;
    auto joined = Group::join(domains[rank], seat_of(rank), within(60s), few_links);
    if (!joined) throw std::runtime_error{joined.error().message()};
    group = std::move(joined).value();
    std::vector<std::uint32_t> own{group.rank()}, all(size);
    expect(group.allgather(own, all, within(60s)));
    expect(std::ranges::equal(all, std::array{0u, 1u, 2u, 3u, 4u, 5u}), "joined");
    // It is refused before the group ends.
    auto const fewer = group.rejoin(seat_of(rank), within(60s), {.at_least = 5});
    expect(!fewer && fewer.error() == Errc::invalid_argument, "fewer");
    expect(says(fewer.error(), "when all 6 have come, not 5"), "why");
    expect(group.barrier(within(60s)));
    auto again = group.rejoin(seat_of(rank), within(60s), {.at_least = size});
    if (!again) throw std::runtime_error{again.error().message()};
    group = std::move(again).value();
    expect(group.allreduce(sum<std::uint32_t>, group.rank(), within(60s)).value() == 15, "again");
    expect(group.generation() == 2, "generation");
  });
}

TEST_CASE("a rank that wants few links where the others have all is rejected", "[group]") {
  if (connects_slowly()) return;
  auto const desk = desk_name();
  std::array<std::optional<Error>, 2> failed{};
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      threads.emplace_back(
          [&, rank, domain = must(open_test_device().allocate_protection_domain())] {
            auto const joined = Group::join(domain, {.rank = rank, .size = 2, .desk = desk},
                                            within(2s), rank == 0 ? GroupOptions{} : few_links);
            if (!joined) failed[rank] = joined.error();
          });
  }
  REQUIRE(failed[0].has_value());
  REQUIRE(failed[1].has_value());
  CHECK_THAT(failed[0]->message() + failed[1]->message(),
             Catch::Contains("has few links, the others have links to all ranks") ||
                 Catch::Contains("has links to all ranks, the others have few"));
}
