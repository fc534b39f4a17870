// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a collective that cannot end says who is missing, goes on where it was, and a group that is
// broken names who broke it. Method: two or three ranks on one thread, which calls for each in
// turn.
#include "group/ranks.hpp"
#include "support/peer_process.hpp"

#include <lend/soft/faults.hpp>

#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// A sum that counts its uses.
struct CountedSum {
  using Element = int;
  static constexpr std::string_view name = "counted sum";
  int* uses;
  void operator()(int& into, int const& from) const noexcept {
    into += from;
    ++*uses;
  }
};

/// The message, as MessageHead of lib/group, in which `rank` says that an error of its own broke
/// the group.
std::array<std::uint32_t, 8> note_of_failure(std::uint32_t rank) {
  constexpr std::uint32_t failed = 3, broken = 3;
  return {0, 0, 0, rank, rank, 0, failed | broken << 16, 0};
}

/// Of elements that fit no message.
struct Large {
  using Element = std::array<char, 5000>;
  static constexpr std::string_view name = "large";
  void operator()(Element&, Element const&) const noexcept {}
};

}  // namespace

TEST_CASE("an event of a rank's port ends no collective", "[group]") {
  if (connects_slowly()) return;
  std::vector<Context> devices;
  auto ranks = group_of(2, {}, &devices);
  if (devices[0].kind() != DeviceKind::soft) return skip(devices[0], "faults are planned");
  auto const rank = GENERATE(std::size_t{0}, std::size_t{1});
  must(inject_faults(devices[rank], FaultPlan{}.port_goes_down(1).port_comes_up(2)));

  // Alone it sleeps, and so learns of the event.
  CHECK(error_of(ranks[rank].barrier(within(100ms))) == Errc::timed_out);
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
  CHECK(ranks[rank].first_cause() == nullptr);
}

TEST_CASE("a collective that timed out goes on when it is called again", "[group]") {
  auto ranks = group_of(2);
  std::array<int, 3> mine{1, 2, 3}, theirs{10, 20, 30};

  auto const late = error_naming(
      1, ranks[0], [&](Deadline until) { return ranks[0].allreduce(sum<int>, mine, until); });
  CHECK(late == Errc::timed_out);
  CHECK(says(late, "allreduce of 12 bytes 1 ("));
  CHECK(says(late, "rank 1 has not come"));
  auto const other = error_of(ranks[0].barrier());
  CHECK(other == Errc::invalid_argument);
  CHECK(says(other, "still under way"));
  CHECK(error_of(ranks[0].allreduce(max<int>, mine, within(1ms))) == Errc::invalid_argument);
  CHECK(error_of(ranks[0].allreduce(sum<int>, mine, within(1ms))) == Errc::timed_out);

  must(ranks[1].allreduce(sum<int>, theirs, within(10s)));  // rank 0's values came before
  must(ranks[0].allreduce(sum<int>, mine, within(10s)));
  CHECK(mine == std::array{11, 22, 33});
  CHECK(theirs == mine);
}

TEST_CASE("a collective of long values that timed out goes on, too", "[group]") {
  auto ranks = group_of(2);
  std::vector<int> mine(100'000, 1), theirs(100'000, 2);
  bool is_over_here = false, is_over_there = false;
  // In turn on one thread, each as far as it comes.
  for (int i = 0; i < 10'000 && !(is_over_here && is_over_there); ++i) {
    if (!is_over_here) is_over_here = ranks[0].allreduce(sum<int>, mine, within(0s)).has_value();
    if (!is_over_there)
      is_over_there = ranks[1].allreduce(sum<int>, theirs, within(0s)).has_value();
  }
  REQUIRE(is_over_here);
  REQUIRE(is_over_there);
  CHECK(mine == std::vector<int>(100'000, 3));
  CHECK(theirs == mine);
}

TEST_CASE("whichever request of long collectives finds its peer dead, all ranks learn it",
          "[group]") {
  if (connects_slowly()) return;
  auto const request = GENERATE(std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3},
                                std::uint64_t{5}, std::uint64_t{8}, std::uint64_t{13});
  std::vector<Context> devices;
  auto ranks = group_of(3, {}, &devices);
  if (devices[0].kind() != DeviceKind::soft) return skip(devices[0], "faults are planned");
  must(inject_faults(devices[0], FaultPlan{}.peer_dies(request)));
  on_each(ranks, [](Group& group) {
    std::vector<int> values(100'000, 1);
    Result<void> called = success();
    for (int i = 0; i < 10 && called.has_value(); ++i)
      called = group.allreduce(max<int>, values, within(30s));
    expect(called.has_error() && called.error() == Errc::peer_lost, "not lost");
    expect(group.lost_rank().has_value(), "no lost rank");
  });
}

TEST_CASE("a call that goes on takes the operation of the call that was made again", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  std::array<int, 2> mine{1, 2}, theirs{10, 20};
  int first = 0, second = 0, other = 0;
  CHECK(error_of(ranks[0].allreduce(CountedSum{&first}, mine, within(1ms))) == Errc::timed_out);
  must(ranks[1].allreduce(CountedSum{&other}, theirs, within(10s)));
  must(ranks[0].allreduce(CountedSum{&second}, mine, within(10s)));
  CHECK(mine == std::array{11, 22});
  CHECK(first == 0);
  CHECK(second == 2);
}

TEST_CASE("an abandoned collective breaks the group, and its memory is the caller's", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  {
    std::vector<int> mine(5000, 1);
    CHECK(error_of(ranks[0].allreduce(sum<int>, mine, within(1ms))) == Errc::timed_out);
    ranks[0].abandon();
  }
  auto const after = error_of(ranks[0].barrier(within(10s)));
  CHECK(after == Errc::channel_broken);
  REQUIRE(after.cause() != nullptr);
  CHECK(says(*after.cause(), "this rank has abandoned allreduce of 20000 bytes 1 ("));
  for (std::size_t const other : {1u, 2u}) {
    std::vector<int> theirs(5000, 2);
    auto const told = error_of(ranks[other].allreduce(sum<int>, theirs, within(30s)));
    CHECK(told == Errc::channel_broken);
    CHECK(says(told, "rank 0 has abandoned a call"));
    CHECK(!ranks[other].lost_rank());
  }
}

TEST_CASE("where no call is under way there is nothing to abandon", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  ranks[0].abandon();
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
  ranks[0].abandon();
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
}

TEST_CASE("a collective that timed out in a team is abandoned by the group", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  Team pair = must(ranks[0].team(std::array{0u, 1u}));
  CHECK(error_of(pair.barrier(within(1ms))) == Errc::timed_out);
  ranks[0].abandon();
  CHECK(error_of(pair.barrier(within(1ms))) == Errc::channel_broken);
  CHECK(says(error_of(ranks[2].barrier(within(30s))), "rank 0 has abandoned a call"));
}

TEST_CASE("a value whose call goes on is the first one", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  CHECK(error_of(ranks[0].allreduce(sum<int>, 1, within(1ms))) == Errc::timed_out);
  CHECK(must(ranks[1].allreduce(sum<int>, 2, within(10s))) == 3);
  CHECK(must(ranks[0].allreduce(sum<int>, 100, within(10s))) == 3);
}

TEST_CASE("a cancelled collective goes on, too", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  Cancellation stopping;
  stopping.cancel();
  CHECK(error_of(ranks[0].barrier(Deadline::never().unless(stopping))) == Errc::cancelled);
  must(ranks[1].barrier(within(10s)));
  must(ranks[0].barrier(within(10s)));
}

TEST_CASE("ranks that make different calls are told both", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  std::array<int, 2> values{};
  CHECK(error_of(ranks[0].barrier(within(1ms))) == Errc::timed_out);

  auto const error = error_of(ranks[1].allreduce(sum<int>, values, within(10s)));

  CHECK(error == Errc::disagreement);
  CHECK(says(error, "rank 0 called barrier as its call 1"));
  CHECK(says(error, "this rank allreduce of 8 bytes 1"));
  auto const after = error_of(ranks[1].barrier(within(1ms)));
  CHECK(after == Errc::channel_broken);
  REQUIRE(after.cause() != nullptr);
  CHECK(*after.cause() == Errc::disagreement);
  CHECK(ranks[1].first_cause() != nullptr);
  CHECK(error_of(ranks[0].barrier(within(10s))) == Errc::disagreement);
}

TEST_CASE("other lengths, roots and operations are disagreements", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  std::array<int, 4> values{};
  auto const first = GENERATE(0, 1, 2);
  auto const call = [&](Group& group, int which, auto patience) -> Result<void> {
    if (which == 0) return group.allreduce(sum<int>, std::span{values}.first(2), patience);
    if (which == 1) return group.allreduce(max<int>, std::span{values}.first(2), patience);
    return group.allreduce(sum<int>, values, patience);
  };
  CHECK(error_of(call(ranks[0], first, within(1ms))) == Errc::timed_out);
  CHECK(error_of(call(ranks[1], (first + 1) % 3, within(10s))) == Errc::disagreement);
}

TEST_CASE("what is wrong with a call is refused, and nothing was sent", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  std::array<int, 4> four{}, more{};
  std::array<int, 2> two{};
  CHECK(error_of(ranks[0].broadcast(2, four)) == Errc::invalid_argument);
  CHECK(error_of(ranks[0].gather(0, two, std::span{four}.first(3))) == Errc::invalid_argument);
  CHECK(error_of(ranks[1].gather(0, two, four)) == Errc::invalid_argument);
  CHECK(error_of(ranks[0].allgather(two, std::span{four}.first(3))) == Errc::invalid_argument);
  CHECK(error_of(ranks[0].all_to_all(std::span<int const>{four}.first(3),
                                     std::span{more}.first(3))) == Errc::invalid_argument);
  CHECK(error_of(ranks[0].reduce_scatter(sum<int>, four, more)) == Errc::invalid_argument);
  std::array<Large::Element, 1> large{};
  CHECK(error_of(ranks[0].allreduce(Large{}, large)) == Errc::invalid_argument);
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
}

TEST_CASE("a rank that has left is named when it is needed", "[group]") {
  auto ranks = group_of(3);
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
  ranks.pop_back();

  std::array<int, 1> value{7};
  // What needs nothing from it still works: a message of rank 0 to rank 1 is all.
  must(ranks[0].gather(1, value, std::span<int>{}, within(10s)));
  auto const error = error_of(ranks[0].barrier(within(10s)));
  CHECK(error == Errc::peer_lost);
  CHECK(says(error, "rank 2 has left"));
}

TEST_CASE("a rank that has left is named where something is sent to it", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
  ranks.pop_back();
  on_each(ranks, [](Group& group) {  // rank 0 learns that rank 2 has left
    auto pair = group.team(std::array{0u, 1u});
    expect(pair.has_value(), "no team");
    std::array<int, 100> values{};  // sent, so that completions are polled for
    expect(pair.value().allreduce(sum<int>, values, within(10s)));
  });

  std::array<int, 1> value{7};
  auto const error = error_of(ranks[0].broadcast(0, value, within(10s)));
  CHECK(error == Errc::peer_lost);
  CHECK(says(error, "rank 2 has left the group, and broadcast"));
  CHECK(ranks[0].lost_rank() == 2);
}

TEST_CASE("a rank that broke the group for a reason of its own is not lost", "[group]") {
  if (connects_slowly()) return;
  Context const context = open_test_device();
  ProtectionDomain const domain = must(context.allocate_protection_domain());
  auto const note = note_of_failure(1);
  auto memory = must(domain.allocate(sizeof note));
  std::memcpy(must(memory.mutable_bytes()).data(), note.data(), sizeof note);
  auto prepared = must(PreparedGroup::prepare(domain, 0, 2));
  auto other = must(channel_builder().protection_domain(domain).build());
  std::array cards{RankCard{}, prepared.cards()[1]};
  cards[1].endpoint = other.endpoint();
  cards[1].mailbox = {};
  auto peer = must(std::move(other).handshake(prepared.cards()[1].endpoint));
  Group group = must(std::move(prepared).handshake(cards));

  must(peer.send({memory.gather(0, sizeof note)}, within(10s)));

  auto const error = error_of(group.barrier(within(10s)));
  CHECK(error == Errc::channel_broken);
  CHECK(says(error, "rank 1 has broken the group"));
  CHECK(!group.lost_rank());
}

TEST_CASE("a rank whose group ends in the middle of a call is named by all", "[group]") {
  GroupOptions options;
  options.keep_alive = 0s;  // nothing but its own word can tell
  auto ranks = group_of(5, options);
  CHECK(error_of(ranks[4].barrier(within(0s))) == Errc::timed_out);
  ranks.pop_back();

  for (Group& group : ranks) {
    auto const error = error_of(group.barrier(within(30s)));
    CAPTURE(group.rank(), error.message());
    CHECK(error == Errc::peer_lost);
    CHECK(says(error, "rank 4 has left the group in the middle of a call"));
    CHECK(group.lost_rank() == 4);
  }
}

TEST_CASE("what one rank finds out all others name, also when it is gone itself", "[group]") {
  if (connects_slowly()) return;
  GroupOptions options;
  options.keep_alive = 0s;
  auto ranks = group_of(8, options);
  CHECK(!ranks[0].lost_rank());
  ranks.erase(ranks.begin() + 5);
  CHECK(error_of(ranks[5].barrier(within(30s))) == Errc::peer_lost);  // rank 6, which needs rank 5
  ranks.erase(ranks.begin() + 5);

  for (Group& group : ranks) {  // rank 7 needs rank 6, rank 0 rank 7
    auto const error = error_of(group.barrier(within(30s)));
    CAPTURE(group.rank(), error.message());
    CHECK(error == Errc::peer_lost);
    CHECK(says(error, "rank 5 has left the group"));
    CHECK(group.lost_rank() == 5);
  }
}

TEST_CASE("where a link fails between two that live, one of them is named by all", "[group]") {
  if (connects_slowly()) return;
  std::vector<Context> devices;
  auto ranks = group_of(4, {}, &devices);
  if (devices[0].kind() != DeviceKind::soft) return skip(devices[0], "faults are planned");
  must(inject_faults(devices[0], FaultPlan{}.peer_dies(1)));  // of its first message, to rank 1

  auto const first = error_of(ranks[0].barrier(within(30s)));

  CHECK(first == Errc::peer_lost);
  CHECK(says(first, "rank 1 is lost: "));
  CHECK(first.cause() != nullptr);
  for (std::size_t const other : {2u, 3u}) {
    auto const error = error_of(ranks[other].barrier(within(30s)));
    CHECK(says(error, "rank 1 is lost, as rank 0 found out"));
    CHECK(ranks[other].lost_rank() == 1);
  }
  CHECK(says(error_of(ranks[1].barrier(within(30s))), "this rank is lost to rank 0"));
}

TEST_CASE("a rank that waits for one whose group is broken learns of the disagreement", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  CHECK(error_of(ranks[0].barrier(within(1ms))) == Errc::timed_out);
  CHECK(error_of(ranks[1].allreduce(sum<int>, 1, within(30s))) == Errc::disagreement);

  auto const error = error_of(ranks[2].barrier(within(30s)));  // it waits for rank 1

  CHECK(error == Errc::disagreement);
  CHECK(says(error, "rank 0 and rank 1 made different calls"));
  CHECK(!ranks[2].lost_rank());
}

TEST_CASE("a forked child makes no call of its parent's group, and ends it for nobody", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  CHECK(error_of(ranks[0].barrier(within(1ms))) == Errc::timed_out);

  PeerProcess child{[&ranks](Wire const&) {
    for (Group& group : ranks)
      if (error_of(group.barrier(within(1ms))) != Errc::system_failed) return 1;
    ranks.clear();
    return 0;
  }};
  CHECK(child.exit_status() == 0);

  CHECK(error_naming(1, ranks[0], barrier_of(ranks[0])) == Errc::timed_out);
  REQUIRE(ranks[0].missing().size() == 1);  // rank 1, which has made no call
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
}

TEST_CASE("a rank that sleeps looks for short messages more often than it would poll", "[group]") {
  auto ranks = group_of(2);
  auto const sleeps = [] {
    rusage usage{};
    REQUIRE(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw;
  };
  auto const before = sleeps();
  CHECK(error_of(ranks[0].barrier(within(500ms))) == Errc::timed_out);
  CHECK(sleeps() - before > 25);  // 5 where each sleep lasts 100 ms
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
}
