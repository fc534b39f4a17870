// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: collectives that are posted compute what a serial program would, in whatever order they are
// waited for. Method: ranks are threads; values are compared with a model.
#include "group/scope_ranks.hpp"
#include "support/seed.hpp"

#include <lend/soft/faults.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <random>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// One of each kind, with `count` values a rank, all under way together.
void check_posted(ScopeRanks const& ranks, Group& group, std::size_t count, std::uint64_t seed) {
  std::uint32_t const rank = group.rank(), size = group.size(), root = size / 2;
  std::size_t const all = count * size;
  bool const is_root = rank == root;
  auto own = ranks.values(rank, count), parts = ranks.values(rank, all);
  auto broadcast = ranks.values(rank, count), gathered = ranks.values(rank, all);
  auto scattered = ranks.values(rank, count), everything = ranks.values(rank, all);
  auto exchanged = ranks.values(rank, all), reduced = ranks.values(rank, count);
  auto summed = ranks.values(rank, count), own_sums = ranks.values(rank, count);

  GroupScope scope{group};
  std::vector<PendingCollective> pending;
  auto const post = [&](Result<PendingCollective> posted) {
    pending.push_back(taken(std::move(posted)));
  };
  post(scope.post_broadcast(root, broadcast.scatter(0, count)));
  post(scope.post_gather(root, own.gather(0, count),
                         is_root ? gathered.scatter(0, all) : ScatterElement{}));
  post(scope.post_scatter(root, is_root ? parts.gather(0, all) : GatherElement{},
                          scattered.scatter(0, count)));
  post(scope.post_barrier());
  post(scope.post_allgather(own.gather(0, count), everything.scatter(0, all)));
  post(scope.post_all_to_all(parts.gather(0, all), exchanged.scatter(0, all)));
  post(scope.post_reduce(root, sum<std::int64_t>, reduced.scatter(0, count)));
  post(scope.post_allreduce(sum<std::int64_t>, summed.scatter(0, count)));
  post(scope.post_reduce_scatter(sum<std::int64_t>, parts.gather(0, all),
                                 own_sums.scatter(0, count)));
  std::mt19937_64 random{seed + rank};
  std::ranges::shuffle(pending, random);
  for (PendingCollective& each : pending) {
    if (random() % 2 == 0) static_cast<void>(taken(each.poll()));
    expect(each.wait(within(patience)));
    expect(taken(each.poll()), "is not over after wait()");
  }
  expect(scope.finish());

  expect(are(broadcast, 0, root, 0, count), "broadcast");
  expect(are(scattered, 0, root, rank * count, count), "scatter");
  for (std::uint32_t i = 0; i < size; ++i) {
    if (is_root) expect(are(gathered, i * count, i, 0, count), "gather");
    expect(are(everything, i * count, i, 0, count), "allgather");
    expect(are(exchanged, i * count, i, rank * count, count), "all_to_all");
  }
  expect(is_root ? are_sums(reduced, size, 0, count) : are(reduced, 0, rank, 0, count), "reduce");
  expect(are_sums(summed, size, 0, count), "allreduce");
  expect(are_sums(own_sums, size, rank * count, count), "reduce_scatter");
  for (Values* each : {&own, &parts, &everything, &summed})
    expect(each->region().loans() == 0, "on loan");
}

/// A sum whose operation has a state.
struct ScaledSum {
  using Element = std::int64_t;
  static constexpr std::string_view name = "scaled sum";
  std::int64_t by;
  void operator()(std::int64_t& into, std::int64_t const& from) const noexcept {
    into += by * from;
  }
};

}  // namespace

TEST_CASE("posted collectives compute what a serial program would", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(1u, 2u, 3u, 5u, 8u);
  auto const seed = seeds(1).front();
  CAPTURE(size, seed);
  GroupOptions options;
  options.message_bytes = 256;
  ScopeRanks ranks{size, options};
  for (std::size_t const count :
       {std::size_t{0}, std::size_t{1}, std::size_t{70}, std::size_t{2500}})
    on_each(ranks.groups, [&](Group& group) { check_posted(ranks, group, count, seed + count); });
}

TEST_CASE("posted collectives of long values do, too, in any domain", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(2u, 3u, 5u);
  auto const where = GENERATE(ValuesIn::other_domains, ValuesIn::domains_of_groups);
  auto const seed = seeds(1).front();
  CAPTURE(size, seed);
  ScopeRanks ranks{size, {}, where};
  for (std::size_t const count : {2049u, 40'001u})
    on_each(ranks.groups, [&](Group& group) { check_posted(ranks, group, count, seed + count); });
}

TEST_CASE("long values next to those that are received stay as they are", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{3};
  constexpr std::size_t before = 5, count = 20'000, behind = 7;
  on_each(ranks.groups, [&](Group& group) {
    auto own = ranks.values(group.rank(), count);
    std::uint32_t const rank = group.rank();
    auto all = ranks.values(rank, before + 3 * count + behind);
    GroupScope scope{group};
    static_cast<void>(taken(scope.post_allgather(own.gather(), all.scatter(before, 3 * count))));
    expect(scope.finish());
    expect(are(all, 0, rank, 0, before), "before");
    for (std::uint32_t i = 0; i < 3; ++i)
      expect(are(all, before + i * count, i, 0, count), "received");
    expect(are(all, before + 3 * count, rank, before + 3 * count, behind), "behind");
  });
}

TEST_CASE("a rank that has read goes on to the next that it can read", "[group]") {
  if (connects_slowly()) return;
  GroupOptions options;
  options.keep_alive = 0ns;  // whose wake-ups would hide one that is lost
  ScopeRanks ranks{3, options};
  if (ranks.devices[0].kind() != DeviceKind::soft)
    return skip(ranks.devices[0], "faults are planned");
  constexpr std::size_t count = 10'000;
  std::vector<Values> own, all;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    own.push_back(ranks.values(rank, count));
    all.push_back(ranks.values(rank, 3 * count));
  }
  GroupScope first{ranks.groups[0]}, second{ranks.groups[1]}, third{ranks.groups[2]};
  auto of_third = must(third.post_allgather(own[2].gather(), all[2].scatter()));
  // Behind the messages to both is the read of rank 2. Meanwhile all that the others say comes.
  must(inject_faults(ranks.devices[0], FaultPlan{}.delay(3, std::chrono::milliseconds{300})));
  auto of_first = must(first.post_allgather(own[0].gather(), all[0].scatter()));
  CHECK(!must(of_first.poll()));
  auto of_second = must(second.post_allgather(own[1].gather(), all[1].scatter()));
  for (int i = 0; i < 20; ++i) {
    CHECK(!must(of_second.poll()));
    CHECK(!must(of_third.poll()));
  }
  must(of_first.wait(within(patience)));
  must(of_second.wait(within(patience)));
  must(of_third.wait(within(patience)));
}

TEST_CASE("a posted collective agrees with the same call of another member", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  on_each(ranks.groups, [&](Group& group) {
    auto sums = ranks.values(group.rank(), 3);
    std::array<std::int64_t, 3> theirs{};
    std::ranges::copy(taken(sums.values()), theirs.begin());
    if (group.rank() == 0) {
      GroupScope scope{group};
      auto const posted = taken(scope.post_allreduce(sum<std::int64_t>, sums.scatter()));
      expect(scope.finish());
      expect(are_sums(sums, 2, 0, 3), "sums");
    } else {
      expect(group.allreduce(sum<std::int64_t>, theirs, within(patience)));
      expect(theirs[2] == posted_value(0, 2) + posted_value(1, 2), "the other's sums");
    }
    expect(group.finished() == 1, "counted");
  });
}

TEST_CASE("collectives of several teams are carried out in the order of their posts", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{3};
  on_each(ranks.groups, [&](Group& group) {
    std::uint32_t const rank = group.rank();
    auto all_sums = ranks.values(rank, 2), sums = ranks.values(rank, 2);
    std::optional<Team> pair;
    if (rank != 1) pair = taken(group.team(std::array{2u, 0u}));
    GroupScope all{group}, two{pair ? *pair : group};
    if (pair) static_cast<void>(taken(two.post_allreduce(sum<std::int64_t>, sums.scatter())));
    static_cast<void>(taken(all.post_allreduce(sum<std::int64_t>, all_sums.scatter())));
    all.drain_within(patience);
    expect(all.finish());
    expect(are_sums(all_sums, 3, 0, 2), "of all");
    if (!pair) return;
    expect(sums.region().loans() == 0, "of two, before");
    expect(two.finish());
    std::int64_t const expected = posted_value(0, 1) + posted_value(2, 1);
    expect(taken(sums.values())[1] == expected, "of two");
  });
}

TEST_CASE("a scope keeps the operation of a posted collective", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto values = ranks.values(0, 1);
  GroupScope scope{ranks.groups[0]};
  {
    ScaledSum const gone{3};
    is_posted(scope.post_allreduce(gone, values.scatter()));
  }
  std::array<std::int64_t, 1> theirs{5};
  must(ranks.groups[1].allreduce(ScaledSum{3}, theirs, within(patience)));
  must(scope.finish());
  CHECK(must(values.values())[0] == posted_value(0, 0) + 15);
}

TEST_CASE("a poll goes no further than what was posted, however far the others are", "[group]") {
  if (connects_slowly()) return;
  auto const [window, ahead, own] =
      GENERATE(table<std::uint32_t, std::size_t, std::size_t>({{4, 3, 2}, {8, 8, 5}}));
  GroupOptions options;
  options.window = window;
  ScopeRanks ranks{2, options};
  auto values = ranks.values(0, ahead), theirs = ranks.values(1, ahead);
  GroupScope scope{ranks.groups[0]}, root{ranks.groups[1]};
  for (std::size_t i = 0; i < ahead; ++i) is_posted(root.post_broadcast(1, theirs.scatter(i, 1)));
  std::optional<PendingCollective> last;
  for (std::size_t i = 0; i < own; ++i) last = must(scope.post_broadcast(1, values.scatter(i, 1)));
  auto const limit = within(patience);
  while (!must(last->poll())) REQUIRE_FALSE(limit.has_passed());
  CHECK(must(last->poll()));
  for (std::size_t i = own; i < ahead; ++i)
    is_posted(scope.post_broadcast(1, values.scatter(i, 1)));
  must(scope.finish());
  must(root.finish());
  CHECK(are(values, 0, 1, 0, ahead));
}
