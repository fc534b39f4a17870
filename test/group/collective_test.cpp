// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: collectives compute what a serial program would, for any size, root, length and type.
// Method: ranks are threads; values are compared with a model.
#include "group/ranks.hpp"
#include "support/thorough.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <numeric>
#include <random>
#include <span>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// The value of rank `rank` at place i.
std::int64_t value_of(std::uint32_t rank, std::size_t i) {
  return std::int64_t(rank) * 1'000'003 + std::int64_t(i) * 7 + 1;
}
using Numbers = std::vector<std::int64_t>;

/// What `size` ranks have, computed once for all of them: `count` values each.
struct Model {
  Model(std::uint32_t ranks, std::size_t values)
      : count{values}, everything(ranks * values), sums(ranks * values) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      for (std::size_t i = 0; i < values; ++i) everything[rank * values + i] = value_of(rank, i);
    for (std::size_t i = 0; i < sums.size(); ++i)
      for (std::uint32_t rank = 0; rank < ranks; ++rank) sums[i] += value_of(rank, i);
  }
  /// Those of `rank`.
  std::span<std::int64_t const> of(std::uint32_t rank) const {
    return std::span{everything}.subspan(rank * count, count);
  }
  std::size_t count;
  Numbers everything;  ///< of rank 0, then those of rank 1, …
  Numbers sums;        ///< of all ranks, at `size` · `count` places
};

bool are_equal(std::span<std::int64_t const> some, std::span<std::int64_t const> others) {
  return std::ranges::equal(some, others);
}

/// Does not commute: (a, b) · (c, d) = (a·c, a·d + b), as maps x → ax + b are combined.
struct Composition {
  struct Element {
    std::uint64_t a, b;
    bool operator==(Element const&) const = default;
  };
  static constexpr std::string_view name = "composition";
  void operator()(Element& into, Element const& from) const noexcept {
    into = {into.a * from.a, into.a * from.b + into.b};
  }
};

/// Looks where its elements are.
template <std::size_t Alignment>
struct AlignedSum {
  struct alignas(Alignment) Element {
    std::int64_t value;
  };
  static constexpr std::string_view name = "aligned sum";
  std::atomic<bool>* is_misaligned;
  void operator()(Element& into, Element const& from) const noexcept {
    into.value += from.value;
    look_at(into);
    look_at(from);
  }
  void look_at(Element const& each) const noexcept {
    auto const volatile address = reinterpret_cast<std::uintptr_t>(&each);  // nothing is assumed
    if (address % Alignment != 0) *is_misaligned = true;
  }
};

/// One value, some in messages, and many that are read.
template <std::size_t Alignment>
void check_alignment(Group& group) {
  using Op = AlignedSum<Alignment>;
  std::atomic<bool> is_misaligned{false};
  Op const add{&is_misaligned};
  std::int64_t const rank = group.rank(), size = group.size(), all = size * (size + 1) / 2;
  auto const one = group.allreduce(add, {rank + 1}, within(patience));
  expect(one.has_value() && one.value().value == all, "one value");
  for (std::size_t const count : {3u, 200u, 3000u}) {
    std::vector<typename Op::Element> values(count, {rank + 1}), part(count);
    std::vector<typename Op::Element> parts(count * group.size(), {rank + 1});
    expect(group.allreduce(add, values, within(patience)));
    expect(values.front().value == all && values.back().value == all, "allreduce");
    values.assign(count, {rank + 1});
    expect(group.reduce(1, add, values, within(patience)));
    expect(values.back().value == (rank == 1 ? all : rank + 1), "reduce");
    expect(group.reduce_scatter(add, parts, part, within(patience)));
    expect(part.back().value == all, "reduce_scatter");
  }
  expect(!is_misaligned, "misaligned");
}

struct Shape {
  std::uint32_t size;
  GroupLinks links = GroupLinks::by_size;
  bool operator==(Shape const&) const = default;
};
/// As a Shape, of few links.
Shape few(std::uint32_t size) {
  return {size, GroupLinks::few};
}

/// Whether the test's device takes only `some` shapes, of which this is none.
bool is_left_out(Shape shape, std::initializer_list<Shape> some) {
  return !takes_all(open_test_device()) && std::ranges::find(some, shape) == some.end();
}

void check_all(Group& group, Model const& model) {
  std::uint32_t const rank = group.rank(), size = group.size();
  std::size_t const count = model.count;
  Numbers const own{model.of(rank).begin(), model.of(rank).end()};
  std::span const sums = model.sums;

  for (std::uint32_t root = 0; root < size; root += std::max(1u, size / 2)) {
    Numbers values = rank == root ? own : Numbers(count);
    expect(group.broadcast(root, values, within(patience)));
    expect(are_equal(values, model.of(root)), "broadcast");

    Numbers all(rank == root ? count * size : 0);
    expect(group.gather(root, own, all, within(patience)));
    expect(rank != root || all == model.everything, "gather");

    Numbers part(count);
    expect(
        group.scatter(root, rank == root ? model.everything : Numbers{}, part, within(patience)));
    expect(part == own, "scatter");

    Numbers reduced = own;
    expect(group.reduce(root, sum<std::int64_t>, reduced, within(patience)));
    expect(are_equal(reduced, rank == root ? sums.first(count) : model.of(rank)), "reduce");
  }

  Numbers all(count * size);
  expect(group.allgather(own, all, within(patience)));
  expect(all == model.everything, "allgather");

  Numbers from(count * size), to(count * size), reduced(count);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = value_of(rank, i);
  expect(group.all_to_all(from, to, within(patience)));
  for (std::uint32_t j = 0; j < size; ++j)
    for (std::size_t i = 0; i < count; ++i)
      expect(to[j * count + i] == value_of(j, rank * count + i), "all_to_all");

  expect(group.reduce_scatter(sum<std::int64_t>, from, reduced, within(patience)));
  expect(are_equal(reduced, sums.subspan(rank * count, count)), "reduce_scatter");

  Numbers largest = own;
  expect(group.allreduce(max<std::int64_t>, largest, within(patience)));
  expect(are_equal(largest, model.of(size - 1)), "allreduce");
  expect(group.barrier(within(patience)));
}

/// On each rank, with `count` values.
void check_all(std::vector<Group>& ranks, std::size_t count) {
  Model const model{static_cast<std::uint32_t>(ranks.size()), count};
  on_each(ranks, [&](Group& group) { check_all(group, model); });
}

}  // namespace

TEST_CASE("collectives compute what a serial program would", "[group]") {
  auto const shape = GENERATE(Shape{1}, Shape{2}, Shape{3}, Shape{5}, Shape{8}, few(1), few(2),
                              few(3), few(4), few(6), few(7), few(11), few(16));
  if (connects_slowly(shape.size)) return;
  if (is_left_out(shape, {{3}, {8}, few(1), few(7)})) return;
  // Nothing; less than a message, of which several ranks' parts fit in one; several messages with a
  // rest.
  GroupOptions options;
  options.message_bytes = 256;
  options.links = shape.links;
  auto ranks = group_of(shape.size, options);
  for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{9}, std::size_t{70}})
    check_all(ranks, count);
}

TEST_CASE("ranks that sleep at once are sent to what is written to others", "[group]") {
  using enum Wait;
  auto const waits = GENERATE(std::vector{event, event}, std::vector{adaptive, event},
                              std::vector{spin, event, adaptive},
                              std::vector{event, event, adaptive, adaptive, event});
  if (connects_slowly(static_cast<std::uint32_t>(waits.size()))) return;
  std::vector<GroupOptions> options(waits.size());
  for (std::size_t rank = 0; rank < waits.size(); ++rank) options[rank].wait = waits[rank];
  auto const domain = must(open_test_device().allocate_protection_domain());
  for (GroupOptions const& each : options) {
    auto const prepared = must(PreparedGroup::prepare(domain, 0, 2, here(each)));
    CHECK((prepared.cards()[1].mailbox == RemoteRegion{}) == (each.wait == event));
  }
  auto ranks = group_of(options);
  // A message without values; the longest that is written; one that is sent.
  for (std::size_t const count : {std::size_t{0}, std::size_t{3}, std::size_t{4}})
    check_all(ranks, count);
}

TEST_CASE("65 ranks have few links, and compute what a serial program would", "[group]") {
  if (connects_slowly()) return;
  if (auto const device = open_test_device(); device.kind() != DeviceKind::soft)
    return skip(device, "that takes the emulated device of a guest minutes");
  auto ranks = group_of(65);
  CHECK(error_of(ranks[0].team(std::array{0u, 3u})) == Errc::invalid_argument);
  check_all(ranks, 5);
}

TEST_CASE("collectives of long values do, too", "[group][every_kernel]") {
  auto const shape = GENERATE(Shape{2}, Shape{3}, Shape{5}, Shape{8}, few(3), few(6), few(8));
  if (connects_slowly(shape.size)) return;
  bool const is_slow = connects_slowly(UINT32_MAX);
  if (is_slow && (shape.size < 3 || shape.links == GroupLinks::few)) return;
  if (is_left_out(shape, {{2}, {5}, few(6)})) return;
  auto ranks = group_of(shape.size, {.links = shape.links});
  // Just too long for messages, and several buffers; on the soft device also where each begins.
  auto const device = open_test_device();
  std::vector<std::size_t> counts{2049, is_slow || !takes_all(device) ? 16'385u : 40'001u};
  if (device.kind() == DeviceKind::soft) counts.insert(counts.end(), {2048, 16'384, 16'385});
  for (auto const count : counts) check_all(ranks, count);
}

TEST_CASE("values are combined in the order of ranks, with the same bits at all", "[group]") {
  if (connects_slowly()) return;
  auto const shape =
      GENERATE(Shape{2}, Shape{3}, Shape{6}, Shape{7}, Shape{8}, few(6), few(8), few(13));
  auto const size = shape.size;
  auto ranks = group_of(size, {.links = shape.links});
  std::vector<double> sums(size);
  std::vector<Composition::Element> maps(size);
  on_each(ranks, [&](Group& group) {
    std::uint32_t const rank = group.rank();
    auto const total = group.allreduce(sum<double>, 1.0 / (rank + 3.0), within(patience));
    auto const map = group.allreduce(Composition{}, {rank + 2u, rank + 5u}, within(patience));
    expect(total.has_value() && map.has_value(), "allreduce of a value");
    sums[rank] = total.value();
    maps[rank] = map.value();
    std::array<Composition::Element, 1> at_last{{{rank + 2u, rank + 5u}}};
    expect(group.reduce(group.size() - 1, Composition{}, at_last, within(patience)));
    if (rank == group.size() - 1) expect(at_last[0] == map.value(), "reduce of maps");
    std::vector<Composition::Element> many(1500, {rank + 2u, rank + 5u});
    expect(group.allreduce(Composition{}, many, within(patience)));
    expect(many.front() == map.value() && many.back() == map.value(), "allreduce of many maps");
    std::vector<Composition::Element> parts(1500 * size, {rank + 2u, rank + 5u}), part(1500);
    expect(group.reduce_scatter(Composition{}, parts, part, within(patience)));
    expect(part.front() == map.value() && part.back() == map.value(), "reduce_scatter of maps");
  });
  Composition::Element expected{2, 5};
  for (std::uint32_t i = 1; i < size; ++i) Composition{}(expected, {i + 2u, i + 5u});
  for (std::uint32_t i = 0; i < size; ++i) {
    CHECK(std::memcmp(&sums[i], &sums[0], sizeof(double)) == 0);
    CHECK(maps[i] == expected);
  }
}

TEST_CASE("elements are combined where their alignment allows, of 32 and of 64 bytes", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(3);
  on_each(ranks, [](Group& group) {
    check_alignment<32>(group);
    check_alignment<64>(group);
  });
}

TEST_CASE("each reduction combines two values as its name says", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  on_each(ranks, [&](Group& group) {
    auto const is = [&](auto const& op, auto own, auto expected) {
      auto const result = group.allreduce(op, own, within(patience));
      expect(result.has_value() && result.value() == expected, "reduction");
    };
    bool const first = group.rank() == 0;
    is(sum<int>, first ? INT32_MAX : 1, INT32_MIN);
    is(product<std::uint16_t>, std::uint16_t(first ? 60'000 : 60'000),
       std::uint16_t(3'600'000'000));
    is(product<float>, first ? 1.5f : 2.0f, 3.0f);
    is(min<unsigned>, first ? 7u : 3u, 3u);
    is(max<double>, first ? 7.0 : 3.0, 7.0);
    is(bit_and<std::uint8_t>, std::uint8_t(first ? 12 : 10), std::uint8_t(8));
    is(bit_or<std::uint8_t>, std::uint8_t(first ? 12 : 10), std::uint8_t(14));
    is(bit_xor<std::uint8_t>, std::uint8_t(first ? 12 : 10), std::uint8_t(6));
  });
}

TEST_CASE("no rank passes a barrier before all have come", "[group]") {
  auto const shape = GENERATE(Shape{2}, Shape{5}, Shape{8}, few(11));
  auto const size = shape.size;
  if (connects_slowly(size)) return;
  auto ranks = group_of(size, {.links = shape.links});
  std::atomic<std::uint32_t> come{0};
  std::uint32_t const rounds = takes_all(open_test_device()) ? 50 : 10;
  on_each(ranks, [&](Group& group) {
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      ++come;
      expect(group.barrier(within(patience)));
      expect(come >= round * size, "passed early");
      expect(group.barrier(within(patience)));
    }
  });
}

TEST_CASE("a rank hears that its messages were taken, whatever else the other one has posted",
          "[group]") {
  // Rank 0 finds all that it needs written, and so does not look for completions: of 152 messages
  // to others, then of 27 to rank 1, more than which it keeps no room for. So it has none when it
  // is to say that it has taken half a window of rank 1's messages.
  constexpr std::uint32_t size = 40;
  if (connects_slowly(size)) return;
  if (auto const device = open_test_device(); !takes_all(device))
    return skip(device, "40 ranks there are for a thorough run");
  auto ranks = group_of(size);
  std::barrier in_turn{2};
  std::vector<std::uint32_t> all_but_1(size - 1);
  for (std::uint32_t i = 1; i < all_but_1.size(); ++i) all_but_1[i] = i + 1;
  on_each(ranks, [&](Group& group) {
    auto const team_of = [&group](std::span<std::uint32_t const> members) {
      auto team = group.team(members);
      expect(team.has_value(), "no team");
      return std::move(team).value();
    };
    bool const is_first = group.rank() == 0;
    std::vector<int> all(is_first ? all_but_1.size() : 0), both(is_first ? 2 : 0);
    std::array<int, 1> one{};
    if (group.rank() != 1) {
      auto others = team_of(all_but_1);
      for (int i = 0; i < 4; ++i) expect(others.scatter(0, all, one, within(patience)));
    }
    if (group.rank() >= 2) return;
    auto pair = team_of(std::array{0u, 1u});
    for (int i = 0; i < 27; ++i) {
      expect(pair.broadcast(0, one, within(patience)));
      in_turn.arrive_and_wait();
    }
    if (is_first) in_turn.arrive_and_wait();
    for (std::uint32_t i = 0; i < GroupOptions{}.window; ++i)
      expect(pair.gather(0, one, both, within(patience)));
    if (!is_first) in_turn.arrive_and_wait();
    expect(pair.gather(0, one, both, within(patience)));
  });
}

TEST_CASE("a rank that is far ahead waits for the others to take its messages", "[group]") {
  if (connects_slowly()) return;
  GroupOptions options;
  options.window = 4;
  auto ranks = group_of(3, options);
  on_each(ranks, [&](Group& group) {
    for (int i = 0; i < 60; ++i) {
      std::array<int, 1> value{group.rank() == 0 ? i : -1};
      expect(group.broadcast(0, value, within(patience)));
      expect(value[0] == i, "broadcast");
    }
  });
}
