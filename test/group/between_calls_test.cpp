// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a rank learns between its calls what became of the others, tells them that it gives up, and
// sleeps on a descriptor of its own loop meanwhile. Values by themselves are sent without a row.
// Method: two or three ranks, on one thread or on one each.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"

#include <lend/soft/faults.hpp>

#include <poll.h>

#include <array>
#include <cstdint>
#include <future>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// The error of `ask`, which is asked until it has one.
template <class Ask>
Error error_at_last(Ask const& ask) {
  auto const until = within(patience);
  for (;;) {
    auto const answer = ask();
    if (answer.has_error()) return answer.error();
    REQUIRE_FALSE(until.has_passed());
  }
}

struct Pair {
  std::int32_t one, other;
};

}  // namespace

TEST_CASE("a rank that computes learns that another has given up between calls", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  for (Group& each : ranks) must(each.check());
  ranks[1].abandon("the matrix is singular");
  REQUIRE(ranks[1].first_cause() != nullptr);
  CHECK(ranks[1].first_cause()->message().find("the group: the matrix is singular") !=
        std::string::npos);
  for (std::size_t const other : {0u, 2u}) {
    auto const told = error_at_last([&] { return ranks[other].check(); });
    CHECK(told == Errc::channel_broken);
    CHECK(says(told, "rank 1 has abandoned a call or the group"));
    CHECK(error_of(ranks[other].check()) == Errc::channel_broken);
    CHECK(error_of(ranks[other].barrier()) == Errc::channel_broken);
  }
  ranks[1].abandon("again");
  CHECK_FALSE(says(*ranks[1].first_cause(), "again"));
}

TEST_CASE("a rank that computes learns that another is lost, and not that it has left", "[group]") {
  if (connects_slowly()) return;
  GroupOptions options;
  options.keep_alive = 20ms;
  options.connection.ack_timeout = 20ms;
  std::vector<Context> devices;
  auto ranks = group_of(2, options, &devices);
  SECTION("left") {
    auto const left = GENERATE(std::size_t{0}, std::size_t{1});
    { Group const gone = std::move(ranks[left]); }
    for (int i = 0; i < 100; ++i) must(ranks[1 - left].check());
    CHECK(error_of(ranks[1 - left].barrier(within(patience))) == Errc::peer_lost);
  }
  SECTION("lost") {
    if (devices[0].kind() != DeviceKind::soft) return skip(devices[0], "faults are planned");
    must(inject_faults(devices[0], FaultPlan{}.peer_dies(1)));  // which a keep-alive finds
    auto const lost = error_at_last([&] { return ranks[0].check(); });
    CHECK(lost == Errc::peer_lost);
    CHECK(ranks[0].lost_rank() == 1);
  }
}

TEST_CASE("a loop of the program's own carries a posted collective on", "[group]") {
  if (connects_slowly()) return;
  auto const wait = GENERATE(Wait::event, Wait::adaptive);
  GroupOptions options;
  options.wait = wait;
  auto ranks = group_of(2, options);
  for (Group const& each : ranks) CHECK(each.look_again().is_never() == (wait == Wait::event));
  on_each(ranks, [](Group& group) {
    GroupScope scope{group};
    auto posted = scope.post_barrier();
    expect(posted.has_value(), "post");
    auto const until = within(patience);
    for (int sleeps = 0;;) {
      auto const polled = group.poll();
      expect(polled.has_value(), "poll");
      auto const over = posted.value().poll();
      expect(over.has_value(), "the collective");
      if (over.value()) break;
      expect(!until.has_passed(), "in time");
      auto const armed = group.arm();
      expect(armed.has_value(), "arm");
      if (!armed.value()) continue;
      pollfd waiting{group.descriptor(), POLLIN, 0};
      static_cast<void>(::poll(&waiting, 1, group.look_again().is_never() ? 10'000 : 10));
      expect(++sleeps < 10'000, "sleeps");
    }
    expect(scope.finish());
  });
}

TEST_CASE("a look between calls ends none that its caller makes again", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto own = ranks.values(0, 3), theirs = ranks.values(1, 3);
  auto const call = [](Group& group, auto& values, Deadline deadline) {
    return group.allreduce(sum<std::int64_t>, values.scatter(), deadline);
  };
  auto const first = [](auto& values) { return must(values.values())[0]; };
  auto const sum_of_both = first(own) + first(theirs);
  CHECK(error_of(call(ranks.groups[0], own, within(1ms))) == Errc::timed_out);
  auto late = std::async(std::launch::async,
                         [&] { return call(ranks.groups[1], theirs, within(patience)); });
  for (auto const until = within(patience); !must(ranks.groups[0].poll());)
    REQUIRE_FALSE(until.has_passed());
  must(call(ranks.groups[0], own, within(patience)));
  must(late.get());
  CHECK(first(own) == sum_of_both);
  CHECK(first(theirs) == sum_of_both);
  on_each(ranks.groups, [](Group& group) { expect(group.barrier(within(patience))); });
}

TEST_CASE("values by themselves", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  on_each(ranks, [](Group& group) {
    auto const rank = group.rank();
    auto const sent = group.broadcast(1, rank == 1 ? 2.5 : 0.0, within(patience));
    expect(sent.has_value() && sent.value() == 2.5, "broadcast");
    auto const pair = group.broadcast(2, rank == 2 ? Pair{3, 4} : Pair{}, within(patience));
    expect(pair.has_value() && pair.value().one == 3 && pair.value().other == 4, "a structure");

    auto const total = group.reduce(2, sum<int>, static_cast<int>(rank) + 1, within(patience));
    expect(total.has_value() && total.value().has_value() == (rank == 2), "reduce");
    expect(rank != 2 || *total.value() == 6, "the sum");

    std::array<std::uint32_t, 3> all{};
    expect(group.allgather(rank + 10, all, within(patience)));
    expect(all == std::array<std::uint32_t, 3>{10, 11, 12}, "allgather");
    std::array<std::uint32_t, 2> few{};
    auto const wrong = group.allgather(rank, few, within(patience));
    expect(wrong.has_error() && wrong.error() == Errc::invalid_argument, "a row too short");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("one value that is gathered goes on after a time-out with the first one", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  std::array<int, 2> one{}, other{};
  CHECK(error_of(ranks[0].allgather(5, one, within(1ms))) == Errc::timed_out);
  auto late = std::async(std::launch::async,
                         [&] { return ranks[1].allgather(7, other, within(patience)); });
  must(ranks[0].allgather(6, one, within(patience)));
  must(late.get());
  CHECK(one == std::array{5, 7});
}

TEST_CASE("the lowest and the highest value say where they are", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  on_each(ranks, [](Group& group) {
    auto const rank = group.rank();
    double const value = rank == 0 ? 1.5 : -2;  // ranks 1 and 2 have the lowest
    auto const low = group.allreduce(min_at<double>, At<double>{value, rank}, within(patience));
    expect(low.has_value() && low.value() == At<double>{-2, 1}, "min_at");
    auto const high = group.allreduce(max_at<double>, At<double>{value, rank}, within(patience));
    expect(high.has_value() && high.value() == At<double>{1.5, 0}, "max_at");
    auto const same = group.allreduce(max_at<int>, At<int>{7, 2 - rank}, within(patience));
    expect(same.has_value() && same.value() == At<int>{7, 0}, "of equals the lowest rank");
  });
}
