// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: short rows, which are written to their reader's memory, keep their order and lend nothing;
// ranks learn that one never comes. Method: ranks as threads, one of which is late, leaves, ends
// its channels or plans faults.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"

#include <lend/group.hpp>
#include <lend/soft/faults.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// An exchange at each of `count` values both ways, which has run once.
template <class Body>
void on_two_with_rows(std::size_t count, Body const& body) {
  on_two_peers(2 * count, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(count, count)).send(other, values.gather(0, count));
    expect(exchange.run(within(patience)));
    body(group, exchange, values, other);
  });
}

}  // namespace

TEST_CASE("short rows lend nothing, and their memory is the program's as they are awaited",
          "[group]") {
  on_two_with_rows(8, [](Group& group, Exchange& exchange, Values& values, std::uint32_t other) {
    if (group.rank() == 0) {
      expect(exchange.start(within(patience)));
      expect(values.region().loans() == 0, "a loan");
      auto const late = exchange.wait(within(1ms));
      expect(late.has_error() && late.error() == Errc::timed_out, "it ended");
      expect(says(late.error(), "it lacks 64 bytes from rank 1"), "the row");
    }
    expect(group.barrier(within(patience)));
    expect(exchange.run(within(patience)));
    expect(are(values, 8, other, 0, 8), "the values");
    expect(exchange.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("ranks run ahead of each other by one run, and rows keep their order", "[group]") {
  on_two_with_rows(8, [](Group& group, Exchange& exchange, Values& values, std::uint32_t other) {
    auto const all = taken(values.mutable_values());
    for (std::int64_t step = 1; step <= 200; ++step) {
      std::fill(all.begin(), all.begin() + 8, step * 2 + group.rank());
      if (step % 7 == 3) std::this_thread::yield();
      expect(exchange.run(within(patience)));
      expect(std::ranges::all_of(all.subspan(8),
                                 [&](std::int64_t value) { return value == step * 2 + other; }),
             "a value of another step");
    }
    expect(exchange.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("where faults are planned short rows go by requests", "[group]") {
  if (auto const device = open_test_device(); device.kind() != DeviceKind::soft)
    return skip(device, "faults are planned");
  ScopeRanks ranks{2};
  on_each_with_values(ranks, 80, [&](Group& group, Values& values) {
    auto const other = 1 - group.rank();
    auto peers = taken(Peers::connect_all(group, within(patience)));
    Exchange exchange{peers};
    Blocks const column{.first = 16, .length = 1, .count = 8, .stride = 8};
    exchange.receive(other, values.scatter(8, 8)).send(other, values.gather(0, 8));
    auto into = column;
    into.first = 17;
    exchange.receive(other, values.scatter(into)).send(other, values.gather(column));
    auto const& device = ranks.devices[group.rank()];
    for (int step = 0; step < 4; ++step) {
      bool const is_delayed = step % 2 == 1;
      expect(inject_faults(device, is_delayed ? FaultPlan{}.delay(2, 30ms) : FaultPlan{}));
      expect(group.barrier(within(patience)));
      auto const begin = Deadline::Clock::now();
      expect(exchange.run(within(patience)));
      expect(!is_delayed || Deadline::Clock::now() - begin >= 30ms, "nothing was delayed");
      expect(are(values, 8, other, 0, 8), "the values");
    }
    expect(exchange.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("exchanges of the same peers keep their short rows apart", "[group]") {
  on_two_peers(24, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    Exchange one{peers}, two{peers};
    one.receive(other, values.scatter(8, 4)).send(other, values.gather(0, 4));
    two.receive(other, values.scatter(16, 4)).send(other, values.gather(4, 4));
    expect(one.run(within(patience)));
    for (int step = 0; step < 3; ++step) {
      expect(two.start(within(patience)));
      expect(one.run(within(patience)));
      expect(two.wait(within(patience)));
      expect(are(values, 8, other, 0, 4) && are(values, 16, other, 4, 4), "the values");
    }
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("a short row that is on loan as it is sent goes once it is back", "[group]") {
  on_two_peers(24, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    auto lane = taken(Peers::connect_all(group, within(patience)));
    Exchange exchange{peers};
    exchange.send(other, values.gather(0, 4)).send(other, values.gather(4, 4));
    exchange.receive(other, values.scatter(8, 4)).receive(other, values.scatter(12, 4));
    PeerScope aside{lane};
    auto const lent = taken(aside.post_receive(other, values.scatter(4, 1)));
    auto const refused = exchange.start(within(patience));
    expect(refused.has_error() && refused.error() == Errc::already_borrowed, "it was sent");
    expect(group.barrier(within(patience)));
    static_cast<void>(taken(aside.post_send(other, values.gather(16, 1))));
    expect(aside.finish());
    expect(exchange.wait(within(patience)));
    expect(are(values, 8, other, 0, 4) && are(values, 13, other, 5, 3), "the values");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("a short row for bytes on loan is that of its run, though its rank is one run ahead",
          "[group]") {
  on_two_peers(24, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    auto lane = taken(Peers::connect_all(group, within(patience)));
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(8, 8)).send(other, values.gather(0, 8));
    expect(exchange.run(within(patience)));
    PeerScope aside{lane};
    if (group.rank() == 0) {
      static_cast<void>(taken(aside.post_receive(other, values.scatter(9, 1))));
      expect(exchange.start(within(patience)));
      auto const refused = exchange.wait(within(patience));
      expect(refused.has_error() && refused.error() == Errc::already_borrowed, "it was taken");
      expect(group.barrier(within(patience)));
      expect(group.barrier(within(patience)));
      expect(aside.finish());
      expect(exchange.wait(within(patience)));
      expect(are(values, 8, other, 0, 8), "values of another run");
    } else {
      expect(exchange.run(within(patience)));
      expect(group.barrier(within(patience)));
      std::ranges::fill(taken(values.mutable_values()).first(8), 7);
      expect(exchange.start(within(patience)));
      static_cast<void>(taken(aside.post_send(other, values.gather(16, 1))));
      expect(aside.finish());
      expect(group.barrier(within(patience)));
    }
    expect(exchange.run(within(patience)));
    if (group.rank() == 0)
      expect(taken(values.values(8, 8)).front() == 7 && taken(values.values(8, 8)).back() == 7,
             "the values of the next run");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("who sleeps by events is sent its short rows", "[group]") {
  GroupOptions options;
  options.wait = Wait::event;
  on_two_peers(
      16,
      [](Group& group, Peers& peers, Values& values, std::uint32_t other) {
        Exchange exchange{peers};
        exchange.receive(other, values.scatter(8, 8)).send(other, values.gather(0, 8));
        expect(exchange.run(within(patience)));
        expect(exchange.start(within(patience)));
        // Its own receive is on loan until wait() sees it, come or not.
        expect(needs_receives_first() || values.region().loans() > 0, "no loan");
        expect(exchange.wait(within(patience)));
        expect(are(values, 8, other, 0, 8), "the values");
        expect(group.barrier(within(patience)));
      },
      options);
}

TEST_CASE("what a rank wrote before it left is taken", "[group]") {
  if (lacks(open_test_device(), &DeviceCapabilities::acknowledges)) return;
  on_two_peers(16, [](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    {
      Exchange exchange{peers};
      exchange.receive(other, values.scatter(8, 8)).send(other, values.gather(0, 8));
      expect(exchange.run(within(patience)));
      std::ranges::fill(taken(values.mutable_values(8, 8)), 0);
      expect(exchange.start(within(patience)));
      if (group.rank() == 0) {
        std::this_thread::sleep_for(20ms);  // mostly it has left by then; the outcome is the same
        expect(group.check());
      }
      expect(exchange.wait(within(patience)));
      expect(are(values, 8, other, 0, 8), "the values");
      expect(exchange.finish());
    }
    if (group.rank() == 0) return;
    Peers const ended{std::move(peers)};
    Group const left{std::move(group)};
  });
}

TEST_CASE("a short row of memory that is not there is refused at the first start", "[group]") {
  on_two_peers(16, [&](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    Exchange exchange{peers};
    exchange.send(other, values.gather(0, 4)).receive(other, values.scatter(14, 4));
    auto const refused = exchange.start(within(patience));
    expect(refused.has_error() && refused.error() == Errc::invalid_argument, "it is taken");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("a child of fork() writes no rows of its parent", "[group]") {
  if (connects_slowly()) return;
  ScopeRanks ranks{2};
  std::vector<Values> values;
  for (std::uint32_t rank = 0; rank < 2; ++rank) values.push_back(ranks.values(rank, 16));
  std::array<std::optional<Peers>, 2> peers;
  std::array<std::optional<Exchange>, 2> exchanges;
  auto const run_both = [&] {
    on_each(ranks.groups, [&](Group& group) {
      auto const rank = group.rank();
      if (!peers[rank]) {
        peers[rank].emplace(taken(Peers::connect_all(group, within(patience))));
        exchanges[rank].emplace(*peers[rank]);
        exchanges[rank]->receive(1 - rank, values[rank].scatter(8, 8));
        exchanges[rank]->send(1 - rank, values[rank].gather(0, 8));
      }
      expect(exchanges[rank]->run(within(patience)));
      expect(are(values[rank], 8, 1 - rank, 0, 8), "the values");
    });
  };
  run_both();
  bool const is_under_way = GENERATE(false, true);
  if (is_under_way)
    on_each(ranks.groups, [&](Group& group) {
      std::ranges::fill(taken(values[group.rank()].mutable_values(8, 8)), 0);
      expect(exchanges[group.rank()]->start(within(patience)));
    });
  pid_t const child = ::fork();
  if (child == 0) {
    auto& own = *exchanges[0];
    auto const is_refused = [](auto const& result) {
      return result.has_error() && result.error() == Errc::system_failed;
    };
    bool const are_refused = is_under_way
                                 ? is_refused(own.wait(within(1s))) && is_refused(own.poll()) &&
                                       is_refused(own.wait_any(within(1s)))
                                 : is_refused(own.start(within(1s)));
    static_cast<void>(own.finish());
    ::_exit(are_refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  if (is_under_way) {
    CHECK(std::ranges::count(taken(values[0].values(8, 8)), 0) == 8);
    on_each(ranks.groups,
            [&](Group& group) { expect(exchanges[group.rank()]->wait(within(patience))); });
  }
  run_both();
}

TEST_CASE("who awaits a short row learns that its rank has left, or has ended its channels",
          "[group]") {
  if (connects_slowly()) return;
  bool const leaves = GENERATE(true, false);
  auto const way = GENERATE(0, 1, 2);
  GroupOptions options;
  options.keep_alive = leaves ? 0ms : 20ms;  // who leaves says so
  ScopeRanks ranks{2, options};
  on_each_with_values(ranks, 24, [&](Group& group, Values& values) {
    auto const other = 1 - group.rank();
    auto peers = std::optional{taken(Peers::connect_all(group, within(patience)))};
    {
      Exchange exchange{*peers};
      exchange.receive(other, values.scatter(8, 8)).send(other, values.gather(0, 8));
      exchange.receive(other, values.scatter(16, 8)).send(other, values.gather(0, 8));
      expect(exchange.run(within(patience)));
      if (group.rank() == 0) {
        Result<void> lost = exchange.start(within(patience));
        if (way == 0 && lost) lost = exchange.wait(within(patience));
        while (way == 1 && lost) lost = without_value(exchange.poll());
        if (way == 2 && lost) {
          lost = without_value(exchange.wait_any(within(patience)));
          auto const also = exchange.wait_any(within(patience));
          expect(also.has_error() && !exchange.wait_any(within(patience)).value(), "each once");
        }
        expect(lost.has_error() && !(lost.error() == Errc::timed_out), "it waited on");
        expect(lost.error().describe().find("rank 1") != std::string::npos, "the name");
        return;
      }
      expect(exchange.finish());
    }
    peers.reset();
    if (leaves) {
      Group const ended{std::move(group)};
      return;
    }
    // It stays in the group until that has broken.
    while (group.check().has_value()) std::this_thread::sleep_for(1ms);
  });
}
