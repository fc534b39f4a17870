// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: short rows, which are written to their reader's memory, keep their order and lend nothing;
// ranks learn that one never comes. Method: ranks as threads, one of which is late, leaves, ends
// its channels or plans faults.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"

#include <lend/group.hpp>
#include <lend/soft/faults.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Two ranks, and an exchange at each of `count` values both ways, which has run once.
template <class Body>
void on_two_with_rows(std::size_t count, Body const& body) {
  if (auto const device = open_test_device(); !device.capabilities().endpoints)
    return skip(device, "connects by rdma_cm, and Peers does not");
  ScopeRanks ranks{2};
  on_each_with_values(ranks, 2 * count, [&](Group& group, Values& values) {
    auto const other = 1 - group.rank();
    auto peers = taken(Peers::connect_all(group, within(patience)));
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
  on_each_with_values(ranks, 16, [&](Group& group, Values& values) {
    auto const other = 1 - group.rank();
    auto peers = taken(Peers::connect_all(group, within(patience)));
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(8, 8)).send(other, values.gather(0, 8));
    auto const& device = ranks.devices[group.rank()];
    for (int step = 0; step < 6; ++step) {
      if (step % 2 == 1) must(inject_faults(device, FaultPlan{}.peer_dies(1'000'000)));
      if (step % 2 == 0) must(inject_faults(device, {}));
      expect(exchange.run(within(patience)));
      expect(are(values, 8, other, 0, 8), "the values");
    }
    expect(exchange.finish());
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("who awaits a short row learns that its rank has left, or has ended its channels",
          "[group]") {
  bool const leaves = GENERATE(true, false);
  auto const device = open_test_device();
  if (!device.capabilities().endpoints)
    return skip(device, "connects by rdma_cm, and Peers does not");
  GroupOptions options;
  options.keep_alive = leaves ? 0ms : 20ms;  // who leaves says so
  ScopeRanks ranks{2, options};
  on_each_with_values(ranks, 16, [&](Group& group, Values& values) {
    auto const other = 1 - group.rank();
    auto peers = std::optional{taken(Peers::connect_all(group, within(patience)))};
    {
      Exchange exchange{*peers};
      exchange.receive(other, values.scatter(8, 8)).send(other, values.gather(0, 8));
      expect(exchange.run(within(patience)));
      if (group.rank() == 0) {
        auto const lost = exchange.run(within(patience));
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
