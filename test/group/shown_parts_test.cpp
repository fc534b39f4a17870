// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: long parts come right whichever ranks show theirs, and what was shown is the caller's alone
// once its call has ended, however it did. Method: ranks draw by lot where their values are, and
// overwrite or free them as soon as their own call is over; values are compared with a model.
#include "group/scope_ranks.hpp"
#include "support/peer_process.hpp"
#include "support/seed.hpp"

#include <lend/soft/faults.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;
using group::Collective;

namespace {

using PartValue = std::int64_t;

enum class MemoryKind : std::uint8_t {
  allocated,          // shown, and read to
  in_another_domain,  // the same, but not read to
  on_another_device,  // not shown
  registered          // not shown, but read to
};
constexpr std::array memory_kinds{MemoryKind::allocated, MemoryKind::in_another_domain,
                                  MemoryKind::on_another_device, MemoryKind::registered};

/// Values of one rank in memory of a kind.
class PartMemory {
 public:
  PartMemory(ScopeRanks const& ranks, std::uint32_t rank, MemoryKind kind, std::size_t count)
      : own_(kind == MemoryKind::registered ? count : 0),
        region_{make(ranks, rank, kind, count * sizeof(PartValue))} {
    auto const all = values();
    for (std::size_t i = 0; i < count; ++i) all[i] = posted_value(rank, i);
  }

  [[nodiscard]] GatherElement gather() { return region_.gather(); }
  [[nodiscard]] ScatterElement scatter() { return region_.scatter(); }
  /// While they are not on loan.
  [[nodiscard]] std::span<PartValue> values() {
    auto const bytes = taken(region_.mutable_bytes());
    return {reinterpret_cast<PartValue*>(bytes.data()), bytes.size() / sizeof(PartValue)};
  }

 private:
  MemoryRegion make(ScopeRanks const& ranks, std::uint32_t rank, MemoryKind kind,
                    std::size_t bytes) {
    if (kind == MemoryKind::registered)
      return taken(ranks.domains[rank].register_memory(std::as_writable_bytes(std::span{own_})));
    if (kind == MemoryKind::allocated) return taken(ranks.domains[rank].allocate(bytes));
    auto const device =
        kind == MemoryKind::on_another_device ? open_test_device() : ranks.devices[rank];
    return taken(taken(device.allocate_protection_domain()).allocate(bytes));
  }

  std::vector<PartValue> own_;
  MemoryRegion region_;
};

struct PartsCall {
  Collective collective;
  std::uint32_t root;
  std::size_t count;  // of a part
};

/// What a rank is to get of `from`.
std::size_t first_of_parts(PartsCall const& call, std::uint32_t rank) {
  bool const has_parts_of_all =
      call.collective == Collective::scatter || call.collective == Collective::all_to_all;
  return has_parts_of_all ? rank * call.count : 0;
}

Result<void> call_parts(PartsCall const& call, Group& group, GatherElement in, ScatterElement out) {
  auto const until = within(patience);
  if (call.collective == Collective::gather) return group.gather(call.root, in, out, until);
  if (call.collective == Collective::scatter) return group.scatter(call.root, in, out, until);
  if (call.collective == Collective::allgather) return group.allgather(in, out, until);
  return group.all_to_all(in, out, until);
}

Result<void> post_parts(PartsCall const& call, Group& group, GatherElement in, ScatterElement out) {
  GroupScope scope{group};
  switch (call.collective) {
    case Collective::gather: LEND_TRYV(without_value(scope.post_gather(call.root, in, out))); break;
    case Collective::scatter:
      LEND_TRYV(without_value(scope.post_scatter(call.root, in, out)));
      break;
    case Collective::allgather: LEND_TRYV(without_value(scope.post_allgather(in, out))); break;
    default: LEND_TRYV(without_value(scope.post_all_to_all(in, out)));
  }
  return scope.finish();
}

/// One call at one rank, as `random` has it.
void check_parts(ScopeRanks const& ranks, Group& group, PartsCall const& call,
                 std::mt19937& random) {
  std::uint32_t const rank = group.rank(), size = group.size();
  bool const is_root = rank == call.root, is_gather = call.collective == Collective::gather,
             is_scatter = call.collective == Collective::scatter;
  bool const has_all_in = is_scatter || call.collective == Collective::all_to_all;
  auto const draw = [&] { return memory_kinds[random() % memory_kinds.size()]; };
  std::optional<PartMemory> in;
  in.emplace(ranks, rank, draw(), call.count * (has_all_in ? size : 1));
  PartMemory out{ranks, rank, draw(), call.count * (is_scatter ? 1 : size)};

  auto const way = random() % 3 == 0 ? call_parts : post_parts;
  expect(way(call, group, is_scatter && !is_root ? GatherElement{} : in->gather(),
             is_gather && !is_root ? ScatterElement{} : out.scatter()));
  for (PartValue& value : in->values()) value = -1;  // others may still be in the call
  if (random() % 2 == 0) in.reset();

  auto const came = out.values();
  if (is_gather && !is_root) return;
  for (std::uint32_t part = 0; part < came.size() / call.count; ++part)
    for (std::size_t i = 0; i < call.count; ++i)
      if (came[part * call.count + i] !=
          posted_value(is_scatter ? call.root : part, first_of_parts(call, rank) + i))
        throw std::runtime_error{"a wrong value"};
}

/// A group of three whose rank 0 is in an allgather, of memory that it shows, and has told so.
struct RankInCall {
  ScopeRanks ranks{3};
  Values own{ranks.values(0, 40'000)}, all{ranks.values(0, 120'000)};

  Result<void> call(Deadline until) {
    return ranks.groups[0].allgather(own.gather(), all.scatter(), until);
  }
  /// As the caller does once its call has ended.
  void use_again() {
    REQUIRE(own.region().loans() + all.region().loans() == 0);
    std::ranges::fill(must(own.mutable_values()), -1);
  }
  /// What rank 1, which comes later, is told; it gets nothing that was written since.
  Error met_by_another() {
    auto theirs = ranks.values(1, 40'000), place = ranks.values(1, 120'000);
    auto const error =
        error_of(ranks.groups[1].allgather(theirs.gather(), place.scatter(), within(patience)));
    for (auto const value : must(place.values()))
      if (value == -1) FAIL("read what was written after the call");
    return error;
  }
};

struct ThrownBeside {};

}  // namespace

TEST_CASE("long parts come right wherever each rank has its values", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(2u, 3u, 5u);
  auto const seed = seed_of_this_run();
  CAPTURE(size, seed);
  ScopeRanks ranks{size};
  on_each(ranks.groups, [&](Group& group) {
    std::mt19937 all{seed}, own{seed + 1 + group.rank()};
    for (int i = 0; i < 40; ++i) {
      constexpr std::array collectives{Collective::gather, Collective::scatter,
                                       Collective::allgather, Collective::all_to_all};
      constexpr std::array<std::size_t, 5> counts{2'049, 9'000, 17'000, 40'001, 150'000};
      PartsCall const call{collectives[all() % 4], static_cast<std::uint32_t>(all() % size),
                           counts[all() % (i % 10 == 0 ? 5 : 4)]};
      check_parts(ranks, group, call, own);
    }
  });
}

TEST_CASE("long parts of a team come right, and between calls of all", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{3};
  constexpr std::size_t count = 20'000;
  on_each(ranks.groups, [&](Group& group) {
    auto own = ranks.values(group.rank(), count), all = ranks.values(group.rank(), 3 * count);
    std::optional<Team> pair;
    if (group.rank() != 1) pair = taken(group.team(std::array{2u, 0u}));
    for (int i = 0; i < 5; ++i) {
      if (pair) {
        expect(pair->allgather(own.gather(), all.scatter(0, 2 * count), within(patience)));
        expect(are(all, 0, 2, 0, count) && are(all, count, 0, 0, count), "of the team");
      }
      expect(group.allgather(own.gather(), all.scatter(), within(patience)));
      for (std::uint32_t each = 0; each < 3; ++each)
        expect(are(all, each * count, each, 0, count), "of all");
    }
  });
}

TEST_CASE("what a rank showed is its own again when it gives up, and nobody reads it", "[group]") {
  if (connects_slowly()) return;
  RankInCall rank;
  std::string const ending = GENERATE("leaves its scope", "throws", "ends its group");
  CAPTURE(ending);
  if (ending == "ends its group") {
    REQUIRE(error_of(rank.call(within(1ms))) == Errc::timed_out);
    CHECK(rank.own.region().loans() == 1);
    rank.ranks.groups[0].abandon();
    Group const ended = std::move(rank.ranks.groups[0]);
  } else {
    try {
      GroupScope scope{rank.ranks.groups[0]};
      scope.drain_within(10ms);
      is_posted(scope.post_allgather(rank.own.gather(), rank.all.scatter()));
      CHECK(rank.own.region().loans() == 1);
      if (ending == "throws") throw ThrownBeside{};
    } catch (ThrownBeside const&) {
    }
  }
  rank.use_again();
  rank.own = rank.ranks.values(0, 1);
  auto later = rank.ranks.values(0, 40'000);  // at the same address
  std::ranges::fill(must(later.mutable_values()), -1);
  CHECK(says(rank.met_by_another(), "rank 0 has abandoned"));
}

TEST_CASE("a call of long parts that timed out goes on where others read it", "[group]") {
  if (connects_slowly()) return;
  RankInCall rank;
  REQUIRE(error_of(rank.call(within(1ms))) == Errc::timed_out);
  on_each(rank.ranks.groups, [&](Group& group) {
    if (group.rank() == 0) {
      Result<void> done = rank.call(within(0s));
      while (done.has_error() && done.error() == Errc::timed_out) done = rank.call(within(1ms));
      expect(done);
      return rank.use_again();
    }
    auto own = rank.ranks.values(group.rank(), 40'000);
    auto all = rank.ranks.values(group.rank(), 120'000);
    expect(group.allgather(own.gather(), all.scatter(), within(patience)));
    for (std::uint32_t each = 0; each < 3; ++each)
      expect(are(all, each * 40'000, each, 0, 40'000), "received");
  });
}

TEST_CASE("whichever control call of a group fails, nothing is made, and the next try succeeds",
          "[group]") {
  Context const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return skip(context, "faults are planned");
  auto const domain = must(context.allocate_protection_domain());
  std::uint64_t call = 0, showing = 0;
  for (Result<void> made = Errc::exhausted; made.has_error();) {
    must(inject_faults(context, FaultPlan{}.control_call_fails(++call, EPERM)));
    made = without_value(PreparedGroup::prepare(domain, 0, 2));
    if (made.has_error()) CHECK(says(made.error(), "Operation not permitted"));
    if (made.has_error() && says(made.error(), "bytes to be shown")) showing = call;
  }
  // None was passed over: it makes no further ones.
  must(inject_faults(context, FaultPlan{}.control_call_fails(call + 1, EPERM)));
  must(without_value(PreparedGroup::prepare(domain, 0, 2)));

  // Parts are copied where the device has no key left to show them by.
  must(inject_faults(context, FaultPlan{}.control_call_fails(showing, ENOMEM)));
  must(without_value(PreparedGroup::prepare(domain, 0, 2)));
}

TEST_CASE("a group shows parts by a key that its links leave", "[group]") {
  Context const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return skip(context, "has few keys");
  auto const domain = must(context.allocate_protection_domain());
  std::byte byte{};
  auto const take = [&] { return domain.register_memory(std::span{&byte, 1}); };
  std::vector<MemoryRegion> taken;
  for (auto region = take(); region; region = take()) taken.push_back(std::move(region).value());
  while (!PreparedGroup::prepare(domain, 0, 2)) {
    REQUIRE(taken.size() > 1);
    taken.pop_back();
  }
  taken.pop_back();
  auto const group = must(PreparedGroup::prepare(domain, 0, 2));
  CHECK(error_of(take()) == Errc::exhausted);
}

TEST_CASE("a forked child ends nothing that its parent shows", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  auto own = ranks.values(0, 40'000), all = ranks.values(0, 80'000);
  GroupScope scope{ranks.groups[0]};
  auto mine = must(scope.post_allgather(own.gather(), all.scatter()));
  PeerProcess child{[&](Wire const&) {
    bool const is_refused = error_of(scope.finish()) == Errc::system_failed;
    ranks.groups.clear();
    return is_refused && own.region().loans() == 0 ? 0 : 1;
  }};
  CHECK(child.exit_status() == 0);
  auto theirs = ranks.values(1, 40'000), place = ranks.values(1, 80'000);
  GroupScope other{ranks.groups[1]};
  auto pending = must(other.post_allgather(theirs.gather(), place.scatter()));
  for (bool is_over = false; !is_over;) {
    bool const is_here = must(mine.poll());
    is_over = must(pending.poll()) && is_here;
  }
  must(scope.finish());
  must(other.finish());
  CHECK(are(place, 0, 0, 0, 40'000));
}
