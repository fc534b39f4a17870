// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: calls of few bytes compute what a serial program would, wherever the short way leaves them
// to the general one, and for whichever reason. Method: ranks of one thread call in random order,
// each until a deadline that nothing keeps; what it lacks decides at which step its call is left.
#include "group/ranks.hpp"
#include "support/seed.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Value = std::uint64_t;
constexpr std::uint32_t kinds = 11;

/// The values of call number `call` at one rank, and what it is to get.
struct Work {
  std::vector<Value> in, out, expected;
};

Value value_of(std::uint32_t call, std::uint32_t rank, std::uint32_t block = 0) {
  return call * 1'000 + rank * 30 + block + 1;
}

/// One rank of the test and its way through the calls: all make the same.
struct Caller {
  Group& group;
  std::uint32_t rank, size;
  std::optional<Team> pair;  // of ranks 0 and 1
  std::uint32_t call = 0;
  std::optional<Work> work{};

  [[nodiscard]] std::uint32_t root() const { return call / kinds % size; }
  /// All ranks' values of a block.
  [[nodiscard]] Value sum_of(std::uint32_t block, std::uint32_t ranks) const {
    Value all = 0;
    for (std::uint32_t each = 0; each < ranks; ++each) all += value_of(call, each, block);
    return all;
  }

  void begin() {
    Work made;
    auto const own = value_of(call, rank);
    auto const of_all = [&](auto&& value) {
      std::vector<Value> all;
      for (std::uint32_t each = 0; each < size; ++each) all.push_back(value(each));
      return all;
    };
    auto const by_rank = [&](std::uint32_t each) { return value_of(call, each); };
    auto const own_blocks = [&](std::uint32_t block) { return value_of(call, rank, block); };
    switch (call % kinds) {
      case 1: made = {{}, {rank == root() ? own : 0}, {value_of(call, root())}}; break;
      case 2: made = {{own}, std::vector<Value>(rank == root() ? size : 0), {}}; break;
      case 3: made = {rank == root() ? of_all(own_blocks) : std::vector<Value>{}, {0}, {}}; break;
      case 4: made = {{own}, std::vector<Value>(size), of_all(by_rank)}; break;
      case 5: made = {of_all(own_blocks), std::vector<Value>(size), {}}; break;
      case 6: made = {{}, {own}, {rank == root() ? sum_of(0, size) : own}}; break;
      case 7: made = {{}, {own, own}, {sum_of(0, size), sum_of(0, size)}}; break;
      case 8: made = {of_all(own_blocks), {0}, {sum_of(rank, size)}}; break;
      case 9: made = {{}, {own}, {sum_of(0, std::min(size, 2u))}}; break;
      case 10:
        made = {{}, std::vector<Value>(9, own), std::vector<Value>(9, sum_of(0, size))};
        break;
      default: break;
    }
    if (call % kinds == 2 && rank == root()) made.expected = of_all(by_rank);
    if (call % kinds == 3) made.expected = {value_of(call, root(), rank)};
    if (call % kinds == 5)
      made.expected = of_all([&](std::uint32_t each) { return value_of(call, each, rank); });
    work = std::move(made);
  }
  Result<void> run(Deadline until) {
    auto& [in, out, expected] = *work;
    switch (call % kinds) {
      case 0: return group.barrier(until);
      case 1: return group.broadcast(root(), out, until);
      case 2: return group.gather(root(), in, out, until);
      case 3: return group.scatter(root(), in, out, until);
      case 4: return group.allgather(in, out, until);
      case 5: return group.all_to_all(in, out, until);
      case 6: return group.reduce(root(), sum<Value>, out, until);
      case 7: return group.allreduce(sum<Value>, out, until);
      case 8: return group.reduce_scatter(sum<Value>, in, out, until);
      case 9: return pair ? pair->allreduce(sum<Value>, out, until) : success();
      default: return group.allreduce(sum<Value>, out, until);  // of more than a note has
    }
  }
  /// Goes as far as it comes until then.
  void go_on(Deadline until) {
    if (!work) begin();
    auto const done = run(until);
    if (done.has_error()) {
      CAPTURE(done.error().message());
      REQUIRE(done.error() == Errc::timed_out);
      return;
    }
    if (call % kinds != 9 || pair) CHECK(work->out == work->expected);
    work.reset();
    ++call;
  }
};

std::vector<Caller> callers_of(std::vector<Group>& ranks) {
  std::vector<Caller> callers;
  auto const size = static_cast<std::uint32_t>(ranks.size());
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    std::optional<Team> pair;
    if (size == 1) pair.emplace(must(ranks[rank].team(std::array{0u})));
    if (size > 1 && rank < 2) pair.emplace(must(ranks[rank].team(std::array{0u, 1u})));
    callers.push_back({ranks[rank], rank, size, std::move(pair)});
  }
  return callers;
}

}  // namespace

TEST_CASE("calls of few bytes go on from any step at which their time is over", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(1u, 2u, 3u, 4u, 5u);
  auto const seed = seed_of_this_run();
  CAPTURE(size, seed);
  std::minstd_rand random{seed};
  auto ranks = group_of(size);
  auto callers = callers_of(ranks);
  constexpr std::uint32_t calls = 6 * kinds;
  for (;;) {
    std::vector<Caller*> left;
    for (Caller& each : callers)
      if (each.call < calls) left.push_back(&each);
    if (left.empty()) break;
    left[random() % left.size()]->go_on(within(random() % 3 == 0 ? 0us : 5us));
  }
  for (Group& group : ranks) CHECK(group.first_cause() == nullptr);
}

TEST_CASE("calls of few bytes are right beside others, each rank on its thread", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(2u, 3u, 4u);
  CAPTURE(size);
  auto ranks = group_of(size);
  auto callers = callers_of(ranks);
  on_each(ranks, [&callers](Group& group) {
    Caller& own = callers[group.rank()];
    while (own.call < 300 * kinds) {
      if (!own.work) own.begin();
      expect(own.run(within(60s)));
      auto const call = own.call % kinds;
      expect((call == 9 && !own.pair) || own.work->out == own.work->expected, "wrong values");
      own.work.reset();
      ++own.call;
    }
  });
}

TEST_CASE("a team has calls of more kinds than it keeps plans for", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  on_each(ranks, [](Group& group) {
    for (int i = 0; i < 3; ++i)
      for (std::size_t bytes = 1; bytes <= 24; ++bytes) {
        std::vector<char> mine(bytes, 'a'), theirs(bytes, group.rank() == 0 ? 'b' : ' ');
        expect(group.allreduce(max<char>, mine, within(60s)));
        expect(group.broadcast(0, theirs, within(60s)));
        expect(mine == std::vector(bytes, 'a') && theirs == std::vector(bytes, 'b'), "wrong");
      }
  });
}
