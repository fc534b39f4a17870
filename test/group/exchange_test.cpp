// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: rows that are described once go in every run, whichever ranks they join, as a serial model
// says; rows that do not fit are named at both ends, and the program's memory is its own between
// two runs. Method: one to eight ranks as threads; random rows of one seed.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"
#include "support/seed.hpp"

#include <lend/group.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// One message of a step: `count` values from a place of the sender to one of the receiver.
struct ModelRow {
  std::uint32_t from, to;
  std::size_t at, into, count;
};

constexpr std::size_t values_sent = 64, values_received = 1024;

/// Rows among `size` ranks, at random; what a rank receives lies one behind the other.
std::vector<ModelRow> random_rows(std::uint32_t size, std::mt19937& random) {
  auto const below = [&](std::size_t limit) { return random() % limit; };
  std::vector<ModelRow> rows;
  std::vector<std::size_t> used(size, values_sent);
  for (std::size_t i = 0, count = below(4 * size); i < count; ++i) {
    auto const from = static_cast<std::uint32_t>(below(size));
    auto const to = static_cast<std::uint32_t>((from + 1 + below(size - 1)) % size);
    auto const length = 1 + below(30);
    if (used[to] + length > values_sent + values_received) continue;
    rows.push_back({from, to, below(values_sent - length), used[to], length});
    used[to] += length;
  }
  return rows;
}

std::vector<std::uint32_t> peers_of(std::vector<ModelRow> const& rows, std::uint32_t rank) {
  std::vector<std::uint32_t> peers;
  for (ModelRow const& row : rows) {
    if (row.from == rank) peers.push_back(row.to);
    if (row.to == rank) peers.push_back(row.from);
  }
  std::ranges::sort(peers);
  peers.erase(std::ranges::unique(peers).begin(), peers.end());
  return peers;
}

/// What a rank sends from place i in a step.
std::int64_t value_of(std::uint32_t rank, std::size_t step, std::size_t i) {
  return static_cast<std::int64_t>(step * 1'000'000 + rank * 1'000 + i);
}

/// `count` elements of a value each.
template <class Element>
std::vector<Element> one_by_one(Values& values, std::size_t at, std::size_t count) {
  std::vector<Element> elements;
  for (std::size_t i = 0; i < count; ++i)
    if constexpr (std::same_as<Element, GatherElement>)
      elements.push_back(values.gather(at + i, 1));
    else
      elements.push_back(values.scatter(at + i, 1));
  return elements;
}

/// Every eighth value, from `first` on.
template <class Element>
std::vector<Element> column(Values& values, std::size_t first) {
  std::vector<Element> elements;
  for (std::size_t i = 0; i < 8; ++i)
    if constexpr (std::same_as<Element, GatherElement>)
      elements.push_back(values.gather(8 * i + first, 1));
    else
      elements.push_back(values.scatter(8 * i + first, 1));
  return elements;
}

/// On each of two ranks, which are each other's peers.
template <class Body>
void on_two(std::size_t count, Body const& body, PeerOptions const& options = {}) {
  ScopeRanks ranks{2};
  on_each_with_values(ranks, count, [&](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience), options));
    body(group, peers, values, 1 - group.rank());
  });
}

template <class T>
bool has(Result<T> const& result, Errc code) {
  return result.has_error() && result.error() == code;
}

}  // namespace

static_assert(!std::is_move_constructible_v<Exchange>);

TEST_CASE("random exchanges are as a serial program says, step after step", "[group]") {
  auto const size = GENERATE(2u, 3u, 5u, 8u);
  auto const seed = seed_of_this_run();
  CAPTURE(size, seed);
  std::mt19937 random{seed + size};
  ScopeRanks ranks{size};
  for (int program = 0; program < 4; ++program) {
    auto const rows = random_rows(size, random);
    on_each_with_values(ranks, values_sent + values_received, [&](Group& group, Values& values) {
      auto const rank = group.rank();
      auto peers = taken(Peers::connect(group, peers_of(rows, rank), within(patience)));
      Exchange exchange{peers};
      std::size_t awaited = 0;
      for (ModelRow const& row : rows) {
        // In one piece, in two, or value by value, of which more than four are copied.
        auto const first = row.count / 2, rest = row.count - first;
        if (row.from == rank && row.count % 3 == 0)
          exchange.send(row.to, one_by_one<GatherElement>(values, row.at, row.count));
        else if (row.from == rank)
          exchange.send(row.to,
                        {values.gather(row.at, first), values.gather(row.at + first, rest)});
        if (row.to == rank && row.count % 4 == 0)
          exchange.receive(row.from, one_by_one<ScatterElement>(values, row.into, row.count));
        else if (row.to == rank)
          exchange.receive(row.from, values.scatter(row.into, row.count));
        awaited += row.to == rank;
      }
      for (std::size_t step = 0; step < 5; ++step) {
        auto const all = taken(values.mutable_values());
        for (std::size_t i = 0; i < values_sent; ++i) all[i] = value_of(rank, step, i);
        if (step % 3 == 0) {
          expect(exchange.run(within(patience)));
        } else if (step % 3 == 1) {
          expect(exchange.start(within(patience)));
          for (std::size_t told = 0; told < awaited; ++told)
            expect(taken(exchange.wait_any(within(patience))).has_value(), "a row");
          expect(!taken(exchange.wait_any(within(patience))).has_value(), "all were told");
          expect(exchange.wait(within(patience)));
        } else {
          expect(exchange.start(within(patience)));
          while (!taken(exchange.poll())) std::this_thread::yield();
        }
        for (ModelRow const& row : rows)
          for (std::size_t i = 0; row.to == rank && i < row.count; ++i)
            expect(all[row.into + i] == value_of(row.from, step, row.at + i), "a value");
      }
      expect(exchange.finish());
      expect(group.barrier(within(patience)));
    });
  }
}

TEST_CASE("ranks whose rows differ both say which, and the group goes on", "[group]") {
  auto const is_shorter = GENERATE(false, true);
  on_two(8, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    auto const rank = group.rank();
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(4, 2)).send(other, values.gather(0, 2));
    if (rank == 1 && is_shorter) exchange.receive(other, values.scatter(6, 1));
    if (rank == 1 && !is_shorter) exchange.send(other, values.gather(0, 1));
    auto const differs = exchange.run(within(patience));
    expect(differs.has_error() && differs.error() == Errc::disagreement, "the code");
    auto const words = is_shorter ? std::array{"this rank sends 1 row to rank 1, which receives 2",
                                               "rank 0 sends 1 row to this rank, which receives 2"}
                                  : std::array{"rank 1 sends 2 rows to this rank",
                                               "this rank sends 2 rows to rank 0"};
    expect(says(differs.error(), words[rank]), "the words");
    auto const again = exchange.start(within(patience));
    expect(again.has_error() && again.error() == Errc::disagreement, "for good");
    expect(exchange.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("the memory of rows is lent while they are under way, and a late rank is named",
          "[group]") {
  on_two(1200, [](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    auto const rank = group.rank();
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(600, 600)).receive(no_rank, values.scatter(0, 1));
    exchange.send(other, values.gather(0, 600));
    if (rank == 0) {
      auto const late = exchange.run(within(1ms));
      expect(late.has_error() && late.error() == Errc::timed_out, "it started");
      expect(says(late.error(), "rank 1 did not start an exchange with this rank"), "the words");
      expect(values.mutable_values().has_value(), "nothing is lent");
      expect(group.barrier(within(patience)));
    } else {
      expect(group.barrier(within(patience)));
    }
    expect(exchange.run(within(patience)));
    expect(are(values, 600, other, 0, 600), "the values");
    expect(group.barrier(within(patience)));
    if (rank == 0 && needs_receives_first()) {
      auto const late = exchange.start(within(1ms));
      expect(has(late, Errc::timed_out), "it started");
      expect(says(late.error(), "rank 1 has no receive for a row of 4800 bytes"), "the row");
      expect(values.mutable_values().has_error(), "it is lent");
    } else if (rank == 0) {
      expect(exchange.start(within(patience)));
      expect(values.mutable_values().has_error(), "it is lent");
      auto const twice = exchange.start(within(patience));
      expect(twice.has_error() && twice.error() == Errc::invalid_argument, "under way");
      auto const late = exchange.wait(within(1ms));
      expect(late.has_error() && late.error() == Errc::timed_out, "it ended");
      expect(says(late.error(), "it lacks 4800 bytes from rank 1"), "the row");
    }
    expect(group.barrier(within(patience)));
    expect(exchange.run(within(patience)));
    expect(values.mutable_values().has_value(), "the bytes are back");
    exchange.send(other, values.gather(0, 1));
    auto const added = exchange.start(within(patience));
    expect(added.has_error() && added.error() == Errc::invalid_argument, "a row too late");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("a column is copied, and what is lent meanwhile is not overwritten", "[group]") {
  on_two(64, [](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    Exchange exchange{peers};
    exchange.send(other, column<GatherElement>(values, 0));
    exchange.receive(other, column<ScatterElement>(values, 1));
    auto lane = taken(Peers::connect_all(group, within(patience)));
    PeerScope scope{lane};
    auto const lent = taken(scope.post_receive(other, values.scatter(8 * 7 + 1, 1)));
    auto const refused = exchange.run(within(patience));
    expect(refused.has_error() && refused.error() == Errc::already_borrowed, "it was overwritten");
    expect(group.barrier(within(patience)));
    static_cast<void>(taken(scope.post_send(other, values.gather(2, 1))));
    expect(scope.finish());  // all is back
    expect(exchange.wait(within(patience)));
    for (std::size_t i = 0; i < 8; ++i) expect(are(values, 8 * i + 1, other, 8 * i, 1), "a value");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("an exchange names the rank whose loss ends it", "[group]") {
  GroupOptions options;
  options.keep_alive = 20ms;
  ScopeRanks ranks{4, options};
  on_each_with_values(ranks, 8, [](Group& group, Values& values) {
    auto const rank = group.rank(), left = (rank + 3) % 4, right = (rank + 1) % 4;
    auto peers = taken(Peers::connect(group, std::array{left, right}, within(patience)));
    Exchange exchange{peers};
    exchange.receive(left, values.scatter(4, 2)).receive(right, values.scatter(6, 2));
    exchange.send(left, values.gather(0, 2)).send(right, values.gather(0, 2));
    expect(exchange.run(within(patience)));
    // Whose word may come while others are still in the barrier.
    Result<void> done = group.barrier(within(patience));
    if (rank == 3) return group.abandon("no convergence");
    bool const has_run = done.has_value();
    while (done.has_value()) done = exchange.run(within(patience));
    expect(done.error().describe().find("rank 3 has abandoned") != std::string::npos, "the name");
    expect(values.values().has_value(), "the bytes are back");
    expect(!has_run || exchange.finish().has_value(), "all was told");
  });
}

// ---- what goes on, and what ends ----

TEST_CASE("the end of an exchange waits for its rows, and is for good", "[group]") {
  on_two(64, [](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    Exchange exchange{peers};
    exchange.send(other, column<GatherElement>(values, 0));
    exchange.receive(other, column<ScatterElement>(values, 1));
    expect(exchange.start(within(patience)));
    expect(exchange.drain_within(patience).finish());
    for (std::size_t i = 0; i < 8; ++i) expect(are(values, 8 * i + 1, other, 8 * i, 1), "a value");
    expect(has(exchange.start(within(patience)), Errc::stale_handle), "it started");
    expect(has(exchange.run(within(patience)), Errc::stale_handle), "it ran");
    expect(has(exchange.finish(), Errc::stale_handle), "it ended twice");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("the first start of an exchange without room ends in time, and goes on", "[group]") {
  if (lacks(open_test_device(), &DeviceCapabilities::waits_for_receives)) return;
  PeerOptions options;
  options.channel.queue_pair.send_depth = 2;
  std::atomic<std::size_t> filled{0};  // the barrier publishes it
  on_two(
      8,
      [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
        auto const rank = group.rank();
        Exchange exchange{peers};
        exchange.receive(other, values.scatter(4, 2)).send(other, values.gather(0, 2));
        PeerScope before{peers};
        if (rank == 0) {
          while (before.post_send(1, values.gather(0, 1), within(1ms)).has_value()) ++filled;
          expect(has(exchange.start(within(1ms)), Errc::timed_out), "it started");
          expect(has(exchange.start(within(1ms)), Errc::timed_out), "again");
          expect(group.barrier(within(patience)));
        } else {
          expect(group.barrier(within(patience)));
          for (std::size_t i = 0; i < filled; ++i)
            static_cast<void>(taken(before.post_receive(0, values.scatter(6, 1))).wait());
        }
        expect(before.finish());
        expect(exchange.run(within(patience)));
        expect(are(values, 4, other, 0, 2), "the values");
        expect(group.barrier(within(patience)));
      },
      options);
}

TEST_CASE("each call goes on with a start that was not over", "[group]") {
  auto const call = GENERATE(0, 1, 2);
  on_two(4, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    auto const rank = group.rank();
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(2, 2)).send(other, values.gather(0, 2));
    if (rank == 0) {
      expect(has(exchange.start(within(1ms)), Errc::timed_out), "it started");
      expect(has(exchange.wait(within(1ms)), Errc::timed_out), "it was over");
      expect(has(exchange.wait_any(within(1ms)), Errc::timed_out), "all were told");
      expect(!taken(exchange.poll()), "it was over, too");
    }
    expect(group.barrier(within(patience)));
    if (rank == 1)
      expect(exchange.run(within(patience)));
    else if (call == 0)
      expect(exchange.wait(within(patience)));
    else if (call == 1)
      while (!taken(exchange.poll())) std::this_thread::yield();
    else
      expect(taken(exchange.wait_any(within(patience))) == std::size_t{0}, "the row");
    expect(exchange.wait(within(patience)));
    expect(are(values, 2, other, 0, 2), "the values");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("a row that comes too late is not of the run", "[group]") {
  on_two(8, [](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(2, 2)).send(other, values.gather(0, 2));
    expect(exchange.start(within(patience)));
    exchange.receive(other, values.scatter(4, 2));
    expect(taken(exchange.wait_any(within(patience))) == std::size_t{0}, "the row");
    expect(!taken(exchange.wait_any(within(patience))).has_value(), "another");
    expect(exchange.wait(within(patience)));
    expect(are(values, 2, other, 0, 2), "the values");
    expect(has(exchange.start(within(patience)), Errc::invalid_argument), "it started");
    expect(exchange.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("what send_receive() refuses to send breaks no group", "[group]") {
  on_two(16, [](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    auto lane = taken(Peers::connect_all(group, within(patience)));
    auto const refused = [&](std::uint32_t to, Send const& sent, Errc code) {
      auto const done = peers.send_receive(to, sent, other, values.scatter(8, 2), within(patience));
      expect(has(done, code), "it was sent");
    };
    refused(7, values.gather(0, 2), Errc::invalid_argument);
    refused(other, values.gather(15, 2), Errc::invalid_argument);
    refused(other, GatherElement{}, Errc::invalid_argument);
    refused(other, Send{one_by_one<GatherElement>(values, 0, 8)}, Errc::invalid_argument);
    refused(other, values.gather(7, 2), Errc::already_borrowed);
    {
      PeerScope scope{lane};
      static_cast<void>(taken(scope.post_receive(other, values.scatter(0, 1))));
      refused(other, values.gather(0, 2), Errc::already_borrowed);
      expect(group.barrier(within(patience)));
      static_cast<void>(taken(scope.post_send(other, values.gather(7, 1))));
      expect(scope.finish());
    }
    auto const done = peers.send_receive(other, values.gather(1, 2), other, values.scatter(8, 2),
                                         within(patience));
    expect(done.has_value() && are(values, 8, other, 1, 2), "the values");
    expect(group.barrier(within(patience)));
    expect(group.first_cause() == nullptr, "it is broken");
  });
}
