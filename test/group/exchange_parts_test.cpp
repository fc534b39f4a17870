// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: rows of parts bring each value to its place, step after step, whatever each end makes of
// them; wrong parts are refused at the first start, and what lies between the pieces stays the
// program's. Method: ranks as threads; random parts of one seed against lists of their values.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"
#include "support/seed.hpp"

#include <lend/group.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Some values of a region: blocks or picked.
struct PartModel {
  std::vector<std::uint32_t> list{};
  std::optional<Blocks> blocks{};
};

constexpr std::size_t part_room = 512;  // values of a region that a part takes from or fills

/// `count` values of [first, first + part_room).
PartModel random_part(std::size_t first, std::size_t count, std::mt19937& random) {
  PartModel part;
  if (random() % 3 == 0) {
    part.list.resize(part_room);
    std::iota(part.list.begin(), part.list.end(), static_cast<std::uint32_t>(first));
    std::ranges::shuffle(part.list, random);
    part.list.resize(count);
    return part;
  }
  std::size_t length = 1 + random() % 64;
  while (count % length != 0) --length;
  auto const stride = length + random() % (part_room / count);
  part.blocks = Blocks{first, length, count / length, stride};
  for (std::size_t block = 0; block < part.blocks->count; ++block)
    for (std::size_t i = 0; i < length; ++i)
      part.list.push_back(static_cast<std::uint32_t>(first + block * stride + i));
  return part;
}

/// A message of each step: parts here and there of as many values.
struct RowOfParts {
  std::uint32_t from, to;
  std::vector<PartModel> sent{}, received{};
};

std::vector<std::uint32_t> all_of(std::vector<PartModel> const& parts) {
  std::vector<std::uint32_t> all;
  for (auto const& part : parts) all.insert(all.end(), part.list.begin(), part.list.end());
  return all;
}

/// Rows among `size` ranks, of one to three parts each; what they fill lies apart.
std::vector<RowOfParts> random_rows_of_parts(std::uint32_t size, std::mt19937& random) {
  std::vector<RowOfParts> rows;
  std::vector<std::size_t> used(size, part_room);
  for (std::size_t i = 0; i < 3 * size; ++i) {
    auto const from = static_cast<std::uint32_t>(random() % size);
    auto const to = static_cast<std::uint32_t>((from + 1 + random() % (size - 1)) % size);
    RowOfParts row{from, to};
    for (std::size_t part = 0, parts = 1 + random() % 3; part < parts; ++part) {
      auto const count = 1 + random() % 250;
      row.sent.push_back(random_part(0, count, random));
      row.received.push_back(random_part(used[to], count, random));
      used[to] += part_room;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::int64_t value_in(std::uint32_t rank, std::size_t step, std::size_t i) {
  return static_cast<std::int64_t>(step * 1'000'000 + rank * 10'000 + i);
}

}  // namespace

TEST_CASE("random rows of parts are as a serial program says, step after step", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(2u, 5u);
  auto const seed = seed_of_this_run();
  CAPTURE(size, seed);
  std::mt19937 random{seed + size};
  ScopeRanks ranks{size};
  auto const rows = random_rows_of_parts(size, random);
  std::size_t parts = 1;
  for (auto const& row : rows) parts += row.received.size();
  on_each_with_values(ranks, part_room * parts, [&](Group& group, Values& values) {
    auto const rank = group.rank();
    auto peers = taken(Peers::connect_all(group, within(patience)));
    Exchange exchange{peers};
    std::vector<std::int64_t> expected(values.size(), -1);
    for (auto const& row : rows) {
      std::vector<GatherParts> sent;
      for (auto const& part : row.sent)
        sent.push_back(part.blocks ? values.gather(*part.blocks) : values.gather(part.list));
      std::vector<ScatterParts> received;
      for (auto const& part : row.received)
        received.push_back(part.blocks ? values.scatter(*part.blocks) : values.scatter(part.list));
      if (row.from == rank) exchange.send(row.to, sent);
      if (row.to == rank) exchange.receive(row.from, received);
    }
    for (std::size_t step = 0; step < 3; ++step) {
      auto const all = taken(values.mutable_values());
      std::ranges::fill(all, -1);
      for (std::size_t i = 0; i < part_room; ++i) all[i] = expected[i] = value_in(rank, step, i);
      expect(exchange.run(within(patience)));
      for (auto const& row : rows) {
        if (row.to != rank) continue;
        auto const from = all_of(row.sent), to = all_of(row.received);
        for (std::size_t i = 0; i < from.size(); ++i)
          expected[to[i]] = value_in(row.from, step, from[i]);
      }
      expect(std::ranges::equal(all, expected), "values");
    }
    expect(exchange.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("long pieces are lent as they lie", "[group]") {
  constexpr std::size_t length = 1024;  // 8 KiB
  on_two_peers(8 * length, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    Exchange exchange{peers};
    Blocks const sent{.first = 0, .length = length, .count = 2, .stride = 2 * length};
    Blocks const received{.first = 5 * length, .length = length, .count = 2, .stride = 2 * length};
    exchange.send(other, values.gather(sent)).receive(other, values.scatter(received));
    expect(exchange.start(within(patience)));
    // A start that waits may see it come.
    bool const is_lent = values.mutable_values(7 * length, 1).has_error();
    expect(is_lent || needs_receives_first(), "a copy is received");
    expect(values.mutable_values(6 * length, length).has_value(), "what lies between is lent");
    expect(exchange.wait(within(patience)));
    for (std::size_t i = 0; i < 2; ++i)
      expect(are(values, (5 + 2 * i) * length, other, 2 * i * length, length), "the values");
    expect(values.region().loans() == 0, "a loan is left");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("parts that are wrong are refused at the first start, with their rank", "[group]") {
  if (connects_slowly()) return;
  struct Wrong {
    char const* says;
    void (*add)(Exchange&, Values&, std::uint32_t other);
  };
  auto const wrong = GENERATE(
      Wrong{"64 values",
            [](Exchange& exchange, Values& values, std::uint32_t other) {
              exchange.send(other, values.gather(Blocks{.first = 60, .length = 5}));
            }},
      Wrong{"overlap",
            [](Exchange& exchange, Values& values, std::uint32_t other) {
              exchange.receive(other, values.scatter({.length = 2, .count = 3, .stride = 1}));
            }},
      Wrong{"value 64", [](Exchange& exchange, Values& values, std::uint32_t other) {
              std::vector<std::uint32_t> const picked{1, 64};
              exchange.receive(other, {values.scatter(picked)});
            }});
  ScopeRanks ranks{2};
  on_each_with_values(ranks, 64, [&](Group& group, Values& values) {
    auto const other = 1 - group.rank();
    auto peers = taken(Peers::connect_all(group, within(patience)));
    Exchange exchange{peers};
    wrong.add(exchange, values, other);
    auto const refused = exchange.start(within(patience));
    expect(refused.has_error() && refused.error() == Errc::invalid_argument, "it is taken");
    auto const text = refused.error().message();
    expect(text.find(wrong.says) != std::string::npos &&
               text.find("rank " + std::to_string(other)) != std::string::npos,
           text.c_str());
    expect(values.region().loans() == 0, "something is on loan");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("what lies between the pieces of a row may be on loan", "[group]") {
  on_two_peers(64, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    auto lane = taken(Peers::connect_all(group, within(patience)));
    Blocks const sent{.length = 1, .count = 8, .stride = 8};
    auto received = sent;
    received.first = 1;
    Exchange exchange{peers};
    exchange.send(other, values.gather(sent)).receive(other, values.scatter(received));
    PeerScope scope{lane};
    auto const between = taken(scope.post_receive(other, values.scatter(2, 1)));
    expect(exchange.run(within(patience)));
    for (std::size_t i = 0; i < 8; ++i) expect(are(values, 8 * i + 1, other, 8 * i, 1), "a value");
    // A piece itself may not.
    auto const piece = taken(scope.post_receive(other, values.scatter(8 * 7 + 1, 1)));
    auto const refused = exchange.run(within(patience));
    expect(refused.has_error() && refused.error() == Errc::already_borrowed, "it was overwritten");
    expect(group.barrier(within(patience)));
    for (int i = 0; i < 2; ++i)
      static_cast<void>(taken(scope.post_send(other, values.gather(3, 1))));
    expect(scope.finish());
    expect(exchange.wait(within(patience)));
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("parts without values are a message without bytes", "[group]") {
  on_two_peers(8, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    Exchange exchange{peers};
    exchange.send(other, values.gather(Picked{})).receive(other, values.scatter(Picked{}));
    exchange.send(no_rank, values.gather(Blocks{.length = 1}));
    expect(exchange.run(within(patience)));
    expect(exchange.finish());
    expect(group.barrier(within(patience)));
  });
}
