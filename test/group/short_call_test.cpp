// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: calls of few bytes compute what a serial program would, wherever the short way leaves them
// to the general one, and for whichever reason. Method: ranks of one thread call in random order,
// each until a deadline that nothing keeps, or post and look; what a rank lacks decides at which
// step its call is left.
#include "group/scope_ranks.hpp"
#include "support/seed.hpp"

#include <lend/soft/faults.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <utility>
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

/// A Caller that posts its calls, several at once. For threads, too.
class Poster {
 public:
  Poster(Caller& caller, ProtectionDomain const& domain) : caller_{caller}, whole_{caller.group} {
    if (caller.pair) pair_.emplace(*caller.pair);
    for (Slot& each : slots_) {
      each.in.emplace(taken(domain.allocate<Value>(values_max)));
      each.out.emplace(taken(domain.allocate<Value>(values_max)));
    }
  }

  [[nodiscard]] bool has_any() const { return ended_ != caller_.call; }
  [[nodiscard]] bool has_room() const { return caller_.call - ended_ < slots_.size(); }
  /// Where there is room, the next call.
  void post() {
    caller_.begin();
    Slot& slot = slots_[caller_.call % slots_.size()];
    slot.work = std::move(*caller_.work);
    auto const& [in, out, expected] = slot.work;
    std::ranges::copy(in, taken(slot.in->mutable_values()).begin());
    std::ranges::copy(out, taken(slot.out->mutable_values()).begin());
    slot.pending.reset();
    if (auto posted = post(in.empty() ? GatherElement{} : slot.in->gather(0, in.size()),
                           out.empty() ? ScatterElement{} : slot.out->scatter(0, out.size())))
      slot.pending.emplace(taken(std::move(*posted)));
    caller_.work.reset();
    ++caller_.call;
  }
  /// Polls the one that was posted last, for which all others go on, too.
  void poll() {
    auto& last = slots_[(caller_.call - 1) % slots_.size()].pending;
    if (last) static_cast<void>(taken(last->poll()));
  }
  /// Whether the one that was posted first is over by then, with the right values.
  bool end(Deadline until) {
    Slot& slot = slots_[ended_ % slots_.size()];
    if (slot.pending) {
      auto const done = slot.pending->wait(until);
      if (done.has_error() && done.error() == Errc::timed_out) return false;
      expect(done);
      expect(slot.in->region().loans() + slot.out->region().loans() == 0, "on loan");
      auto const values = taken(slot.out->values(0, slot.work.out.size()));
      expect(std::ranges::equal(values, slot.work.expected), "wrong values");
    }
    ++ended_;
    return true;
  }
  /// After calls that block.
  void skip() { ended_ = caller_.call; }

 private:
  static constexpr std::size_t values_max = 9;

  struct Slot {
    Work work{};
    std::optional<TypedRegion<Value>> in{}, out{};
    std::optional<PendingCollective> pending{};
  };

  std::optional<Result<PendingCollective>> post(GatherElement in, ScatterElement out) {
    switch (caller_.call % kinds) {
      case 0: return whole_.post_barrier();
      case 1: return whole_.post_broadcast(caller_.root(), out);
      case 2: return whole_.post_gather(caller_.root(), in, out);
      case 3: return whole_.post_scatter(caller_.root(), in, out);
      case 4: return whole_.post_allgather(in, out);
      case 5: return whole_.post_all_to_all(in, out);
      case 6: return whole_.post_reduce(caller_.root(), sum<Value>, out);
      case 8: return whole_.post_reduce_scatter(sum<Value>, in, out);
      case 9:
        if (!pair_) return {};
        return pair_->post_allreduce(sum<Value>, out);
      default: return whole_.post_allreduce(sum<Value>, out);
    }
  }

  Caller& caller_;
  GroupScope whole_;
  std::optional<GroupScope> pair_{};
  std::array<Slot, 3> slots_{};
  std::uint32_t ended_ = 0;  // calls
};

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

TEST_CASE("posted calls of few bytes do, too, several at once and beside calls that block",
          "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(1u, 2u, 3u, 4u, 5u);
  auto const seed = seed_of_this_run();
  CAPTURE(size, seed);
  std::minstd_rand random{seed};
  ScopeRanks ranks{size};
  auto callers = callers_of(ranks.groups);
  std::deque<Poster> posters;
  for (Caller& each : callers) posters.emplace_back(each, ranks.domains[each.rank]);
  constexpr std::uint32_t calls = 12 * kinds, call_with_faults = 8 * kinds;
  bool has_faults = ranks.devices[0].kind() != DeviceKind::soft;
  auto const go_on = [&](Caller& caller, Poster& poster) {
    switch (random() % 6) {
      case 0:
      case 1:
        if (!caller.work && caller.call < calls && poster.has_room()) poster.post();
        break;
      case 2:
        if (poster.has_any()) poster.poll();
        break;
      case 3: must(caller.group.check()); break;
      case 4:  // one that blocks, which may have to be made again
        if (poster.has_any() || caller.call == calls) break;
        caller.go_on(within(random() % 2 == 0 ? 0us : 5us));
        poster.skip();
        break;
      default:
        if (poster.has_any()) static_cast<void>(poster.end(within(random() % 2 == 0 ? 0us : 5us)));
    }
  };
  for (;;) {
    std::vector<std::uint32_t> left;
    for (Caller const& each : callers)
      if (each.call < calls || posters[each.rank].has_any()) left.push_back(each.rank);
    if (left.empty()) break;
    auto const rank = left[random() % left.size()];
    go_on(callers[rank], posters[rank]);
    // From here on this rank stores nothing: its messages are requests.
    if (callers[0].call == call_with_faults && !std::exchange(has_faults, true))
      must(inject_faults(ranks.devices[0], FaultPlan{}.delay(1'000'000, 1ms)));
  }
  for (Group& group : ranks.groups) CHECK(group.first_cause() == nullptr);
}

TEST_CASE("posted calls of few bytes are right beside others, each rank on its thread", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(2u, 3u, 4u);
  auto const seed = seed_of_this_run();
  CAPTURE(size, seed);
  ScopeRanks ranks{size};
  auto callers = callers_of(ranks.groups);
  on_each(ranks.groups, [&](Group& group) {
    auto const rank = group.rank();
    std::minstd_rand random{seed + rank};
    Caller& own = callers[rank];
    Poster poster{own, ranks.domains[rank]};
    auto const end_one = [&] { expect(poster.end(within(patience)), "not over"); };
    while (own.call < 100 * kinds) {
      poster.post();
      for (auto polls = random() % 300; polls > 0; --polls) poster.poll();
      while (poster.has_any() && (!poster.has_room() || random() % 3 == 0)) end_one();
    }
    while (poster.has_any()) end_one();
  });
}

TEST_CASE("polls of a posted call see what its peers call, and that they have left", "[group]") {
  if (connects_slowly()) return;
  auto const error_of_polls = [](PendingCollective& pending, int most) -> Error {
    for (int poll = 0; poll < most; ++poll)
      if (auto const polled = pending.poll(); polled.has_error()) return polled.error();
    return Errc::timed_out;
  };
  auto ranks = group_of(4);
  GroupScope scope{ranks[0]};
  SECTION("a rank that it waits for, at once") {
    auto pending = must(scope.post_barrier());
    CHECK_FALSE(must(pending.poll()));
    SECTION("calls something else") {
      std::array<int, 4> all{};
      REQUIRE(error_of(ranks[3].allgather(std::array{1}, all, within(0s))) == Errc::timed_out);
      CHECK(error_of_polls(pending, 1) == Errc::disagreement);
    }
    SECTION("has left") {
      ranks.pop_back();
      CHECK(error_of_polls(pending, 1) == Errc::peer_lost);
    }
  }
  SECTION("one that was heard before the post, of as many bytes") {
    std::vector<int> nothing;
    REQUIRE(error_of(ranks[3].allgather(nothing, nothing, within(0s))) == Errc::timed_out);
    must(ranks[0].check());
    auto pending = must(scope.post_barrier());
    CHECK(error_of_polls(pending, 1) == Errc::disagreement);
  }
  SECTION("another one calls something else") {
    auto pending = must(scope.post_barrier());
    std::array<int, 4> all{};
    REQUIRE(error_of(ranks[2].allgather(std::array{1}, all, within(0s))) == Errc::timed_out);
    SECTION("after some polls, and at once if it gives up") {
      bool const gives_up = GENERATE(false, true);
      if (gives_up) ranks[2].abandon();
      CHECK(error_of_polls(pending, gives_up ? 1 : 300) == Errc::disagreement);
    }
    SECTION("at once by check()") {
      CHECK(error_of(ranks[0].check()) == Errc::disagreement);
    }
    SECTION("at once by wait()") {
      CHECK(error_of(pending.wait(within(0s))) == Errc::disagreement);
    }
  }
  SECTION("but what has come counts before") {
    std::array value{7};
    auto const domain = must(open_test_device().allocate_protection_domain());
    auto place = must(domain.allocate<int>(1));
    auto pending = must(scope.post_broadcast(3, place.scatter()));
    CHECK_FALSE(must(pending.poll()));
    must(ranks[3].broadcast(3, value, within(0s)));
    ranks.pop_back();
    CHECK(must(pending.poll()));
    CHECK(must(place.values())[0] == 7);
  }
  SECTION("and it is under way for all other calls") {
    auto const pending = must(scope.post_barrier());
    auto const refused = error_of(ranks[0].barrier(within(1s)));
    CHECK(refused == Errc::invalid_argument);
    CHECK_THAT(refused.message(),
               Catch::Contains("barrier 1 (") && Catch::Contains("posted in a GroupScope"));
    ranks[0].abandon();
    CHECK_THAT(ranks[0].first_cause()->message(), Catch::Contains("abandoned barrier 1 ("));
    CHECK(error_of(ranks[1].barrier(within(patience))) == Errc::channel_broken);
  }
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
