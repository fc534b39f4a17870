// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a time-out names the ranks that have not entered the call, however few of them the caller
// itself waits for. Method: ranks on one thread, so that those which are asked do not run.
#include "group/ranks.hpp"
#include "support/stories.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::uint32_t> missing(Team const& team) {
  return {team.missing().begin(), team.missing().end()};
}

}  // namespace

TEST_CASE("a time-out names the ranks that have not come, and what they are in", "[group]") {
  auto const size = GENERATE(3u, 4u, 7u, 16u);
  if (connects_slowly(size)) return;
  auto ranks = group_of(size);
  on_each(ranks, [](Group& group) {
    expect(group.allreduce(sum<int>, 1, within(60s)).has_value(), "sum");
  });
  std::vector<std::uint32_t> const late{1, size - 1};
  for (Group& group : ranks)
    if (std::ranges::find(late, group.rank()) == late.end())
      CHECK(error_of(group.barrier(within(1ms))) == Errc::timed_out);

  for (Group& group : ranks) {
    if (std::ranges::find(late, group.rank()) != late.end()) continue;
    auto const error = error_naming(late.size(), group, barrier_of(group));
    CAPTURE(size, group.rank(), error.message());
    CHECK(error == Errc::timed_out);
    CHECK(missing(group) == late);
    CHECK_THAT(
        error.message(),
        Catch::Contains("rank 1 has not come: it is in no call since allreduce of 4 bytes 1 (") &&
            Catch::Contains("missing_ranks_test.cpp:"));
    if (size == 4 && group.rank() == 0)
      check_story("a barrier to which two ranks have not come", error);
  }

  // One of them comes, and waits itself.
  CHECK(error_of(ranks[1].barrier(within(1ms))) == Errc::timed_out);
  CHECK(error_naming(1, ranks[0], barrier_of(ranks[0])) == Errc::timed_out);
  CHECK(missing(ranks[0]) == std::vector{size - 1});
  on_each(ranks, [](Group& group) { expect(group.barrier(within(60s))); });
}

TEST_CASE("a rank that is in another team's call is told from one that has come", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(4);
  std::array const low{0u, 1u, 2u};
  std::array const pair{2u, 3u};
  std::array<int, 1> const own{1};
  std::array<int, 3> all{};
  std::span<int> const nothing{};
  must(must(ranks[2].team(low)).gather(0, own, nothing, within(60s)));  // it need not wait
  auto two = must(ranks[2].team(pair));
  CHECK(error_naming(1, two, barrier_of(two)) == Errc::timed_out);
  CHECK(missing(two) == std::vector{3u});

  auto zero = must(ranks[0].team(low));
  auto const gathered = [&](Deadline until) { return zero.gather(0, own, all, until); };
  CHECK(error_naming(1, zero, gathered) == Errc::timed_out);
  CHECK(missing(zero) == std::vector{1u});
  must(must(ranks[1].team(low)).gather(0, own, nothing, within(60s)));
  must(zero.gather(0, own, all, within(60s)));
  auto const error = error_naming(3, ranks[0], barrier_of(ranks[0]));

  CHECK(missing(ranks[0]) == std::vector{1u, 2u, 3u});
  CHECK_THAT(error.message(),
             Catch::Contains("rank 3 has not come: it has made no call") &&
                 Catch::Contains("rank 2 has not come: it is in barrier 1 of a team of 2 ("));
}

TEST_CASE(
    "a rank that is through a call is never named as missing in it, though its record changes",
    "[group]") {
  if (connects_slowly()) return;
  constexpr std::uint32_t size = 5;
  auto ranks = group_of(size);
  std::array<std::atomic<int>, size> done{};
  std::atomic<int> named{0};
  on_each(ranks, [&](Group& group) {
    auto const own = group.rank();
    for (int call = 1; call <= 20; ++call) {
      if (std::uint32_t(call) % size == own) std::this_thread::sleep_for(500us);
      for (;;) {
        std::array<int, size> before{};
        for (std::uint32_t i = 0; i < size; ++i) before[i] = done[i];
        auto const met = group.barrier(within(100us));
        if (met.has_value()) break;
        expect(met.error() == Errc::timed_out, "timed out");
        for (std::uint32_t const rank : group.missing()) {
          expect(rank != own && before[rank] < call, "named though it is through");
          ++named;
        }
      }
      done[own] = call;
    }
  });
  CHECK(named > 0);
}

TEST_CASE("a call that only looks asks no device", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(4);
  auto const error = error_of(ranks[0].barrier(within(0s)));
  CHECK(error == Errc::timed_out);
  CHECK(missing(ranks[0]).empty());
  CHECK_THAT(error.message(), Catch::Contains("rank 3 has not come as far"));
  Cancellation stopping;
  stopping.cancel();
  CHECK(error_of(ranks[0].barrier(Deadline::never().unless(stopping))) == Errc::cancelled);
  CHECK(missing(ranks[0]).empty());
}

TEST_CASE("a rank that has left is told of, but not as missing: it may have come before",
          "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(4);
  std::array<int, 1> const own{1};
  std::array<int, 4> all{};
  must(ranks[2].gather(0, own, std::span<int>{}, within(60s)));
  ranks.erase(ranks.begin() + 2);
  auto const error = error_naming(
      2, ranks[0], [&](Deadline until) { return ranks[0].gather(0, own, all, until); });
  CHECK(error == Errc::timed_out);
  CHECK(missing(ranks[0]) == std::vector{1u, 3u});
  CHECK_THAT(error.message(), Catch::Contains("rank 2 left the group"));
}

TEST_CASE("of many missing ranks the first are told in full", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(12);
  auto const error = error_naming(11, ranks[0], barrier_of(ranks[0]));
  CHECK(missing(ranks[0]).size() == 11);
  CHECK_THAT(error.message(), Catch::Contains("rank 8 has not come") &&
                                  Catch::Contains("3 more have not come") &&
                                  !Catch::Contains("rank 9"));
}
