// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever happens to a group or a program, the bytes of posted collectives come back in
// time. Method: two or three ranks on one thread; some never come, die, or end.
#include "group/scope_ranks.hpp"
#include "support/peer_process.hpp"

#include <lend/soft/faults.hpp>

#include <array>
#include <chrono>
#include <optional>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Thrown {};

}  // namespace

TEST_CASE("what a rank showed before it gave up is what others read, or nothing", "[group]") {
  if (connects_slowly()) return;
  std::vector<ProtectionDomain> domains;
  auto ranks = group_of(2, {}, nullptr, &domains);
  std::vector<int> values(20'000, 7), theirs(20'000, 1);
  REQUIRE(error_of(ranks[0].broadcast(0, values, within(0s))) == Errc::timed_out);
  ranks[0].abandon();
  Group gone = std::move(ranks[0]);
  { Group const end = std::move(gone); }
  std::vector<MemoryRegion> later;
  for (int i = 0; i < 8; ++i) {
    later.push_back(must(domains[0].allocate(100'000)));
    std::ranges::fill(must(later.back().mutable_bytes()), std::byte{0xff});
  }
  auto const read = ranks[1].broadcast(0, theirs, within(10s));
  if (read) CHECK(theirs == std::vector<int>(20'000, 7));
  if (!read) CHECK(read.error() != Errc::timed_out);
}

TEST_CASE("bytes of a posted collective are on loan until it is over", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto mine = ranks.values(0, 4), theirs = ranks.values(1, 4);
  GroupScope scope{ranks.groups[0]}, other{ranks.groups[1]};
  auto sum_of_all = must(scope.post_allreduce(sum<std::int64_t>, mine.scatter(0, 3)));

  CHECK(error_of(mine.region().mutable_bytes()) == Errc::already_borrowed);
  auto const again = error_of(scope.post_broadcast(0, mine.scatter(2, 2)));
  CHECK(again == Errc::already_borrowed);
  CHECK_THAT(again.message(), Catch::Contains("scope_end_test.cpp"));
  auto const beside = error_of(ranks.groups[0].barrier(within(1s)));
  CHECK(beside == Errc::invalid_argument);
  CHECK_THAT(beside.message(), Catch::Contains("allreduce of 24 bytes 1 (") &&
                                   Catch::Contains("posted in a GroupScope"));
  CHECK_FALSE(must(sum_of_all.poll()));
  auto const late =
      error_saying_enough([&](Deadline until) { return sum_of_all.wait(until); },
                          [](Error const& so_far) { return says(so_far, "rank 1 has not come"); });
  CHECK(late == Errc::timed_out);
  CHECK_THAT(late.message(),
             Catch::Contains("rank 1 has not come") && Catch::Contains("wait again"));
  CHECK(mine.region().loans() == 1);

  is_posted(other.post_allreduce(sum<std::int64_t>, theirs.scatter(0, 3)));
  must(sum_of_all.wait(within(patience)));
  CHECK(mine.region().loans() == 0);
  must(other.finish());
  CHECK(are_sums(mine, 2, 0, 3));
  CHECK(are_sums(theirs, 2, 0, 3));
  CHECK(must(mine.values())[3] == posted_value(0, 3));
  must(scope.finish());
  CHECK(error_of(scope.finish()) == Errc::stale_handle);
  CHECK(error_of(scope.post_barrier()) == Errc::stale_handle);
}

TEST_CASE("what is only sent is lent shared", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{3};
  auto values = ranks.values(0, 4);
  GroupScope scope{ranks.groups[0]};
  is_posted(scope.post_broadcast(0, values.scatter()));
  is_posted(scope.post_reduce(1, sum<std::int64_t>, values.scatter()));
  is_posted(scope.post_gather(1, values.gather(), {}));
  CHECK(must(values.values())[1] == posted_value(0, 1));
  CHECK(error_of(scope.post_broadcast(1, values.scatter())) == Errc::already_borrowed);
  scope.drain_within(0s);
}

TEST_CASE("nothing is posted while a call that timed out is under way", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  CHECK(error_of(ranks.groups[0].barrier(within(1ms))) == Errc::timed_out);
  GroupScope scope{ranks.groups[0]};
  auto const refused = error_of(scope.post_barrier());
  CHECK(refused == Errc::invalid_argument);
  CHECK_THAT(refused.message(), Catch::Contains("make that call again"));
  on_each(ranks.groups, [](Group& group) { expect(group.barrier(within(patience))); });
  must(scope.finish());
}

TEST_CASE("a scope whose member never comes ends at its bound, with all bytes", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{3};
  auto first = ranks.values(0, 2000), second = ranks.values(0, 3);
  auto const begun = std::chrono::steady_clock::now();
  std::optional<PendingCollective> behind;
  SECTION("by finish()") {
    GroupScope scope{ranks.groups[0]};
    scope.drain_within(2s);
    is_posted(scope.post_allreduce(sum<std::int64_t>, first.scatter()));
    behind = must(scope.post_broadcast(2, second.scatter()));
    auto const late = error_of(scope.finish());
    CHECK(late == Errc::timed_out);
    CHECK_THAT(late.message(), Catch::Contains("rank 1 has not come") &&
                                   Catch::Contains("abandoned with its scope"));
  }
  SECTION("by its end") {
    GroupScope scope{ranks.groups[0]};
    scope.drain_within(20ms);
    is_posted(scope.post_allreduce(sum<std::int64_t>, first.scatter()));
    behind = must(scope.post_broadcast(2, second.scatter()));
  }
  SECTION("by an exception") {
    try {
      GroupScope scope{ranks.groups[0]};
      is_posted(scope.post_allreduce(sum<std::int64_t>, first.scatter()));
      behind = must(scope.post_broadcast(2, second.scatter()));
      throw Thrown{};
    } catch (Thrown const&) {
    }
  }
  SECTION("by a cancellation") {
    Cancellation stopping;
    stopping.cancel();
    GroupScope scope{ranks.groups[0]};
    scope.drain_until(Deadline::never().unless(stopping));
    is_posted(scope.post_allreduce(sum<std::int64_t>, first.scatter()));
    behind = must(scope.post_broadcast(2, second.scatter()));
    CHECK(error_of(scope.finish()) == Errc::cancelled);
  }
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  CHECK(first.region().loans() + second.region().loans() == 0);
  CHECK(error_of(behind->wait(within(patience))) == Errc::channel_broken);
  CHECK(must(second.values())[2] == posted_value(0, 2));
  std::array<std::int64_t, 2000> theirs{};
  auto const told = error_of(ranks.groups[1].allreduce(sum<std::int64_t>, theirs, within(30s)));
  CHECK_THAT(told.message(), Catch::Contains("rank 0 has abandoned a call"));
}

TEST_CASE("a scope that an exception leaves waits for members that are about to come", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto sent = ranks.values(0, 3);
  try {
    GroupScope scope{ranks.groups[0]};
    is_posted(scope.post_broadcast(0, sent.scatter()));  // takes no answer
    throw Thrown{};
  } catch (Thrown const&) {
  }
  CHECK(ranks.groups[0].first_cause() == nullptr);
  std::array<std::int64_t, 3> got{};
  must(ranks.groups[1].broadcast(0, got, within(patience)));
  CHECK(got[2] == posted_value(0, 2));
}

TEST_CASE("the handle whose collective broke the group says why, those behind it that it did",
          "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{3};
  if (ranks.devices[0].kind() != DeviceKind::soft)
    return skip(ranks.devices[0], "faults are planned");
  auto values = ranks.values(0, 3), more = ranks.values(0, 3);
  must(inject_faults(ranks.devices[0], FaultPlan{}.peer_dies(1)));  // of its first message
  GroupScope scope{ranks.groups[0]};
  auto first = must(scope.post_allreduce(sum<std::int64_t>, values.scatter()));
  auto second = must(scope.post_allreduce(sum<std::int64_t>, more.scatter()));

  auto const behind = error_of(second.wait(within(30s)));

  CHECK(behind == Errc::channel_broken);
  REQUIRE(behind.cause() != nullptr);
  CHECK(*behind.cause() == Errc::peer_lost);
  CHECK(error_of(first.poll()) == Errc::peer_lost);
  CHECK(error_of(first.wait()) == Errc::peer_lost);
  CHECK(values.region().loans() + more.region().loans() == 0);
  CHECK(error_of(scope.post_barrier()) == Errc::channel_broken);
  CHECK(error_of(scope.finish()) == Errc::channel_broken);
  CHECK(ranks.groups[0].lost_rank().has_value());
}

TEST_CASE("whichever request of posted long values finds its peer dead, their bytes come back",
          "[group]") {
  if (connects_slowly()) return;
  if (auto const device = open_test_device(); device.kind() != DeviceKind::soft)
    return skip(device, "faults are planned");
  auto const request = GENERATE(range(std::uint64_t{1}, std::uint64_t{13}));
  ScopeRanks ranks{3};
  must(inject_faults(ranks.devices[0], FaultPlan{}.peer_dies(request)));
  on_each(ranks.groups, [&](Group& group) {
    auto own = ranks.values(group.rank(), 40'000), all = ranks.values(group.rank(), 120'000);
    for (Result<void> over = success(); over.has_value();) {
      GroupScope scope{group};
      static_cast<void>(taken(scope.post_allgather(own.gather(), all.scatter())));
      over = scope.finish();
      expect(over.has_value() || over.error() == Errc::peer_lost, "not lost");
      expect(own.region().loans() + all.region().loans() == 0, "on loan");
    }
    expect(group.lost_rank().has_value(), "no lost rank");
  });
}

TEST_CASE("no more collectives are posted than fit", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  {
    GroupScope scope{ranks.groups[0]};
    auto first = must(scope.post_barrier());
    for (std::size_t i = 1; i < GroupScope::posted_max; ++i) is_posted(scope.post_barrier());
    CHECK(error_of(scope.post_barrier()) == Errc::queue_full);
    must(ranks.groups[1].barrier(within(patience)));
    must(first.wait(within(patience)));
    is_posted(scope.post_barrier());
    scope.drain_within(0s);
  }
  CHECK(ranks.groups[0].first_cause() != nullptr);  // the others never came
}

TEST_CASE("a group that ends takes its posted collectives along", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto values = ranks.values(0, 3);
  Team both = must(ranks.groups[0].team(std::array{1u, 0u}));
  GroupScope scope{both};
  auto pending = must(scope.post_allreduce(sum<std::int64_t>, values.scatter()));
  ranks.groups.erase(ranks.groups.begin());
  CHECK(values.region().loans() == 0);
  CHECK(error_of(pending.poll()) == Errc::stale_handle);
  CHECK(error_of(scope.post_barrier()) == Errc::stale_handle);
  CHECK(error_of(scope.finish()) == Errc::stale_handle);
  auto const moved = std::move(pending);
  CHECK(error_of(pending.wait()) == Errc::stale_handle);
}

TEST_CASE("a group that broke and ended says why it broke", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  GroupScope scope{ranks.groups[0]};
  auto pending = must(scope.post_barrier());
  ranks.groups.pop_back();
  CHECK(error_of(pending.wait(within(patience))) == Errc::peer_lost);
  ranks.groups.clear();
  CHECK(error_of(pending.wait()) == Errc::peer_lost);
  CHECK(error_of(scope.finish()) == Errc::peer_lost);
}

TEST_CASE("the scope of a forked child gives back what is lent there", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto values = ranks.values(0, 1);
  GroupScope scope{ranks.groups[0]};
  is_posted(scope.post_allreduce(sum<std::int64_t>, values.scatter()));
  PeerProcess child{[&](Wire const&) {
    bool const is_refused = error_of(scope.finish()) == Errc::system_failed;
    return is_refused && values.region().loans() == 0 ? 0 : 1;
  }};
  CHECK(child.exit_status() == 0);
  CHECK(values.region().loans() == 1);
  std::array<std::int64_t, 1> theirs{5};
  must(ranks.groups[1].allreduce(sum<std::int64_t>, theirs, within(patience)));
  must(scope.finish());
}

TEST_CASE("what is wrong with a posted collective is refused, and nothing is lent", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto values = ranks.values(0, 4), more = ranks.values(0, 4);
  GroupScope scope{ranks.groups[0]};
  auto const is_refused = [&](Result<PendingCollective> const& posted) {
    CHECK(error_of(posted) == Errc::invalid_argument);
    CHECK(values.region().loans() + more.region().loans() == 0);
  };
  is_refused(scope.post_broadcast(2, values.scatter()));
  is_refused(scope.post_broadcast(0, values.scatter(2, 3)));
  is_refused(scope.post_allgather(values.gather(), more.scatter()));
  is_refused(scope.post_gather(1, values.gather(), more.scatter()));
  is_refused(scope.post_all_to_all(values.gather(0, 3), more.scatter()));
  is_refused(scope.post_allreduce(sum<std::int64_t>, values.region().scatter(0, 12)));
  is_refused(scope.post_allgather(values.gather(0, 1), values.scatter(0, 2)));
  is_refused(scope.post_allreduce(sum<std::int64_t>, ScatterElement{nullptr, {0, 8}}));
  on_each(ranks.groups, [](Group& group) { expect(group.barrier(within(patience))); });
  must(scope.finish());
}
