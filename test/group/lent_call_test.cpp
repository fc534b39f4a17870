// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: blocking calls of registered memory compute what a serial program would, and lend it until
// they are over. Method: ranks are threads, or two on one thread; values are compared with a model.
#include "group/scope_ranks.hpp"

#include <array>
#include <chrono>
#include <cstdint>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// One of each kind, with `count` values a rank.
void check_lent(ScopeRanks const& ranks, Group& group, std::size_t count) {
  std::uint32_t const rank = group.rank(), size = group.size(), root = size / 2;
  std::size_t const all = count * size;
  bool const is_root = rank == root;
  auto const own = ranks.values(rank, count), parts = ranks.values(rank, all);
  auto one = ranks.values(rank, count), many = ranks.values(rank, all);

  expect(group.broadcast(root, one.scatter(0, count), within(patience)));
  expect(are(one, 0, root, 0, count), "broadcast");
  expect(group.gather(root, own.gather(0, count), is_root ? many.scatter(0, all) : ScatterElement{},
                      within(patience)));
  for (std::uint32_t i = 0; is_root && i < size; ++i)
    expect(are(many, i * count, i, 0, count), "gather");
  expect(group.scatter(root, is_root ? parts.gather(0, all) : GatherElement{},
                       one.scatter(0, count), within(patience)));
  expect(are(one, 0, root, rank * count, count), "scatter");
  expect(group.allgather(own.gather(0, count), many.scatter(0, all), within(patience)));
  for (std::uint32_t i = 0; i < size; ++i) expect(are(many, i * count, i, 0, count), "allgather");
  expect(group.all_to_all(parts.gather(0, all), many.scatter(0, all), within(patience)));
  for (std::uint32_t i = 0; i < size; ++i)
    expect(are(many, i * count, i, rank * count, count), "all_to_all");

  auto reduced = ranks.values(rank, count), summed = ranks.values(rank, count);
  expect(group.reduce(root, sum<std::int64_t>, reduced.scatter(0, count), within(patience)));
  expect(is_root ? are_sums(reduced, size, 0, count) : are(reduced, 0, rank, 0, count), "reduce");
  expect(group.allreduce(sum<std::int64_t>, summed.scatter(0, count), within(patience)));
  expect(are_sums(summed, size, 0, count), "allreduce");
  expect(group.reduce_scatter(sum<std::int64_t>, parts.gather(0, all), one.scatter(0, count),
                              within(patience)));
  expect(are_sums(one, size, rank * count, count), "reduce_scatter");
  std::array<Values const*, 6> const used{&own, &parts, &one, &many, &reduced, &summed};
  for (Values const* each : used) expect(each->region().loans() == 0, "on loan");
}

}  // namespace

TEST_CASE("calls of registered memory compute what a serial program would, in any domain",
          "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(1u, 2u, 3u, 5u);
  auto const where = GENERATE(ValuesIn::domains_of_groups, ValuesIn::other_domains);
  CAPTURE(size);
  ScopeRanks ranks{size, {}, where};
  for (std::size_t const count : {0u, 70u, 2049u, 40'001u})
    on_each(ranks.groups, [&](Group& group) { check_lent(ranks, group, count); });
}

TEST_CASE("memory of a call that timed out is on loan until the same call is over", "[group]") {
  if (connects_slowly()) return;
  auto const count = GENERATE(std::size_t{10}, std::size_t{40'000});
  ScopeRanks ranks{2};
  Group& group = ranks.groups[0];
  auto own = ranks.values(0, count), all = ranks.values(0, 2 * count);
  auto const call = [&](Deadline deadline) {
    return group.allgather(own.gather(), all.scatter(), deadline);
  };
  auto const late = error_naming(1, group, call);
  CHECK(late == Errc::timed_out);
  CHECK_THAT(late.message(),
             Catch::Contains("rank 1 has not come") && Catch::Contains("make the same call again"));
  CHECK(own.region().loans() == 1);
  CHECK(error_of(all.region().bytes()) == Errc::already_borrowed);

  auto const beside = [&] {
    auto other = ranks.values(0, 2 * count);
    GroupScope scope{group};
    return std::array{error_of(group.barrier(within(1s))), error_of(scope.post_barrier()),
                      error_of(group.allgather(own.gather(), other.scatter(), within(1s)))};
  }();
  for (Error const& each : beside) {
    CHECK(each == Errc::invalid_argument);
    CHECK_THAT(each.message(), Catch::Contains("is still under way: make that call again"));
  }

  on_each(ranks.groups, [&](Group& each) {
    if (each.rank() == 0) return expect(call(within(patience)));
    auto const theirs = ranks.values(1, count);
    auto place = ranks.values(1, 2 * count);
    expect(each.allgather(theirs.gather(), place.scatter(), within(patience)));
    expect(are(place, 0, 0, 0, count), "received");
  });
  CHECK(own.region().loans() + all.region().loans() == 0);
  CHECK(are(all, count, 1, 0, count));
  on_each(ranks.groups, [&](Group& each) {
    GroupScope scope{each};
    static_cast<void>(taken(scope.post_barrier()));
    expect(scope.finish());
    expect(each.barrier(within(patience)));
  });
}

TEST_CASE("a call of registered memory that is abandoned gives it back", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto own = ranks.values(0, 40'000), all = ranks.values(0, 80'000);
  auto const call = [&](Deadline deadline) {
    return ranks.groups[0].allgather(own.gather(), all.scatter(), deadline);
  };
  CHECK(error_of(call(within(1ms))) == Errc::timed_out);
  CHECK(own.region().loans() == 1);
  ranks.groups[0].abandon();
  CHECK(own.region().loans() + all.region().loans() == 0);
  CHECK(error_of(call(within(1ms))) == Errc::channel_broken);
}

TEST_CASE("a call meets the same one of registered memory, and of a scope", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{3};
  constexpr std::size_t count = 40'000;
  on_each(ranks.groups, [&](Group& group) {
    auto values = ranks.values(group.rank(), count);
    if (group.rank() == 0) {
      expect(group.allreduce(sum<std::int64_t>, values.scatter(), within(patience)));
    } else if (group.rank() == 1) {
      expect(group.allreduce(sum<std::int64_t>, taken(values.mutable_values()), within(patience)));
    } else {
      GroupScope scope{group};
      static_cast<void>(taken(scope.post_allreduce(sum<std::int64_t>, values.scatter())));
      expect(scope.finish());
    }
    expect(are_sums(values, 3, 0, count), "sums");
  });
}

TEST_CASE("a call is refused memory that it cannot have, and lends nothing", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  Group& group = ranks.groups[0];
  auto own = ranks.values(0, 10), all = ranks.values(0, 20);
  CHECK(error_of(group.broadcast(0, own.scatter(0, 11), within(1s))) == Errc::invalid_argument);
  CHECK(error_of(group.allgather(own.gather(0, 9), all.scatter(), within(1s))) ==
        Errc::invalid_argument);
  CHECK(error_of(group.gather(1, own.gather(), all.scatter(), within(1s))) ==
        Errc::invalid_argument);
  CHECK(own.region().loans() + all.region().loans() == 0);
}
