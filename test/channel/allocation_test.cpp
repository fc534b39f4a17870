// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: once warm, no operation takes anything from the heap, whichever way it is posted.
// Method: this program's operator new counts; each way runs a little, then the count must stand.
#include "channel/allocated_by.hpp"
#include "support/catch.hpp"
#include "support/datagrams.hpp"
#include "support/device_environment.hpp"
#include "support/each_failure.hpp"
#include "support/new_directory.hpp"
#include "support/sanitizers.hpp"
#include "support/two_ends.hpp"

#include <lend/channel/unsafe.hpp>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

#if LEND_TEST_ASAN || LEND_TEST_TSAN
constexpr std::uint64_t posts_many = 100'000;  // they make each post some fifty times dearer
#else
constexpr std::uint64_t posts_many = 1'000'000;
#endif

/// A connected pair with memory, some of it exposed.
struct Bench {
  TwoEnds ends = two_ends();
  MemoryRegion memory = must(ends.domain.allocate(4096));
  // SAFETY: one thread plays both sides, and no test here looks at these bytes.
  MemoryRegion exposed = must(ends.domain.unsafe_allocate_exposed(4096, RemoteAccess::read_write));
  RemoteSlice there = must(exposed.remote()).slice(0, 64);
};

}  // namespace

TEST_CASE("the counter sees what the library allocates", "[channel]") {
  auto const before = allocations();
  Bench bench;
  CHECK(allocations() - before > 5);
}

TEST_CASE_METHOD(Bench, "a blocking operation allocates nothing", "[channel]") {
  auto const write = [&] { return ends.a.write({memory.gather(0, 64), there}); };
  auto const read = [&] { return ends.a.read({memory.scatter(0, 64), there}); };
  auto const send = [&]() -> Result<void> {
    // SAFETY: nobody touches these bytes, and the wait below outlives the work.
    LEND_TRY(arrival, unsafe_post_receive(ends.b, memory.scatter(128, 64)));
    LEND_TRYV(ends.a.send(memory.gather(0, 64)));
    LEND_TRYV(arrival.wait());
    return success();
  };
  auto const receive = [&]() -> Result<void> {
    // SAFETY: as above, with the sides exchanged.
    LEND_TRY(departure, unsafe_post_send(ends.a, memory.gather(0, 64)));
    LEND_TRYV(ends.b.receive(memory.scatter(128, 64)));
    LEND_TRYV(departure.wait());
    return success();
  };

  CHECK(allocated_by(write) == 0);
  CHECK(allocated_by(read) == 0);
  CHECK(allocated_by(send) == 0);
  CHECK(allocated_by(receive) == 0);
}

TEST_CASE_METHOD(Bench, "a loan to the peer allocates nothing, recalled or returned", "[channel]") {
  if (lacks(ends.context, &DeviceCapabilities::peer_loans)) return;
  PollingScope scope{ends.a};
  auto const recalled = [&]() -> Result<void> {
    LEND_TRY(loan, scope.post_lend(memory.scatter(0, 64)));
    return loan.recall();
  };
  auto const returned = [&]() -> Result<void> {
    LEND_TRY(loan, scope.post_lend(memory.gather(64, 64)));
    LEND_TRY(arrival, scope.post_receive(memory.scatter(128, 64)));
    LEND_TRYV(ends.b.send(Send::only_returning(loan.remote())));
    LEND_TRYV(arrival.wait());
    return loan.recall();
  };
  CHECK(allocated_by(recalled) == 0);
  CHECK(allocated_by(returned) == 0);
}

TEST_CASE("a channel that counts and records allocates nothing for an operation", "[channel]") {
  NewDirectory const folder;
  ChannelOptions options;
  options.observe.record_in = folder.path();
  auto ends = two_ends(options);
  auto memory = must(ends.domain.allocate(4096));
  auto const exchange = [&]() -> Result<void> {
    PollingScope sending{ends.a}, receiving{ends.b};
    LEND_TRY(arrival, receiving.post_receive(memory.scatter(128, 64)));
    LEND_TRYV(sending.post_send(memory.gather(0, 64)));
    LEND_TRYV(arrival.wait());
    LEND_TRYV(sending.finish());
    return receiving.finish();
  };

  CHECK(allocated_by(exchange) == 0);
  if (ends.a.metrics() == nullptr) return;  // of a build without observing
  CHECK_FALSE(ends.a.metrics()->recording_failure.has_value());
  CHECK(ends.a.metrics()->of(Operation::send).completed == warm_up + counted);
}

TEST_CASE("a channel of a set that counts by LEND_METRICS takes no block of its own", "[channel]") {
  auto ends = two_ends();
  auto const blocks_of_second = [&](char const* wish) {
    EnvironmentVariable const all{"LEND_METRICS", wish};
    auto set = must(WaitSet::create(ends.context));
    ChannelOptions options;
    options.wait_set = &set;
    auto const first = must(prepare_channel(ends.domain, options));
    auto const before = blocks_held();
    auto const second = must(prepare_channel(ends.domain, options));
    return blocks_held() - before;
  };
  static_cast<void>(blocks_of_second("1"));

  CHECK(blocks_of_second("1") == blocks_of_second(nullptr));
}

TEST_CASE_METHOD(Bench, "a scope and the operations in it allocate nothing", "[channel]") {
  auto const every_operation = [&]() -> Result<void> {
    PollingScope sending{ends.a}, receiving{ends.b};
    LEND_TRY(arrival, receiving.post_receive(memory.scatter(128, 64)));
    LEND_TRYV(sending.post_send(memory.gather(0, 64)));
    LEND_TRYV(sending.post_write({memory.gather(0, 64), there}));
    LEND_TRYV(sending.post_read({memory.scatter(256, 64), there}));
    LEND_TRYV(arrival.wait());
    LEND_TRYV(sending.finish());
    return receiving.finish();
  };
  auto const closure = [&] {
    return ends.a.scope([&](PollingScope& scope) -> Result<void> {
      LEND_TRYV(scope.post_write({{memory.gather(0, 8), memory.gather(32, 56)}, there}));
      return success();
    });
  };

  CHECK(allocated_by(every_operation) == 0);
  CHECK(allocated_by(closure) == 0);
}

TEST_CASE_METHOD(Bench, "a batch allocates nothing", "[channel]") {
  auto const every_operation = [&]() -> Result<void> {
    PollingScope sending{ends.a}, receiving{ends.b};
    auto arrivals = receiving.batch();
    auto batch = sending.batch();
    for (std::size_t i = 0; i < 10; ++i) {
      LEND_TRYV(arrivals.add_receive(memory.scatter(128 + i * 8, 8)));
      LEND_TRYV(batch.add_send(memory.gather(0, 8)));
      LEND_TRYV(batch.add_write({memory.gather(0, 64), there}, no_handle));
      LEND_TRYV(batch.add_read({memory.scatter(256 + i * 64, 64), there}));
    }
    LEND_TRYV(arrivals.post());
    LEND_TRYV(batch.post());
    LEND_TRYV(sending.finish());
    return receiving.finish();
  };

  CHECK(allocated_by(every_operation) == 0);
}

TEST_CASE("a call to many peers allocates nothing", "[channel]") {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(4096));
  WaitSet set = must(WaitSet::create(context));
  std::vector<Channel> near, far;
  for (int i = 0; i < 3; ++i) {
    ChannelOptions options;
    options.wait_set = &set;
    options.queue_pair.receive_depth = 2;
    auto [one, other] = connected(domain, options, options);
    near.push_back(std::move(one));
    far.push_back(std::move(other));
  }
  MultiChannel here = must(MultiChannel::adopt(std::move(near)));
  MultiChannel there = must(MultiChannel::adopt(std::move(far)));
  std::array<std::uint32_t, 3> const all{0, 1, 2};
  std::array const receives{PeerReceive{2, memory.scatter(0, 8)},
                            PeerReceive{1, memory.scatter(8, 8)},
                            PeerReceive{0, memory.scatter(16, 8)}};
  std::array<Outcome, 3> rows;

  auto const multicast = [&]() -> Result<void> {
    std::array<std::optional<PendingWork>, 3> arrivals;
    for (std::uint32_t i = 0; i < 3; ++i) {
      // SAFETY: nobody touches these bytes, and every handle is waited for.
      LEND_TRY(arrival, unsafe_post_receive(there[i], memory.scatter(64 + i * 8, 8)));
      arrivals[i].emplace(std::move(arrival));
    }
    LEND_TRYV(here.multicast_send(all, memory.gather(512, 8), rows));
    for (auto& arrival : arrivals) {
      LEND_TRYV(arrival->wait());
    }
    return success();
  };
  auto const gather_by = [&](std::span<PeerReceive const> wanted) -> Result<void> {
    std::array<std::optional<PendingWork>, 3> departures;
    for (std::uint32_t i = 0; i < 3; ++i) {
      // SAFETY: as above.
      LEND_TRY(departure, unsafe_post_send(there[wanted[i].peer], memory.gather(512, 8)));
      departures[i].emplace(std::move(departure));
    }
    LEND_TRYV(here.gather_receive(wanted, rows));
    for (auto& departure : departures) {
      LEND_TRYV(departure->wait());
    }
    return success();
  };

  // The third has no room until one of the others is over.
  std::array const crowded{PeerReceive{0, memory.scatter(0, 8)},
                           PeerReceive{0, memory.scatter(8, 8)},
                           PeerReceive{0, memory.scatter(16, 8)}};

  CHECK(allocated_by(multicast) == 0);
  CHECK(allocated_by([&] { return gather_by(receives); }) == 0);
  CHECK(allocated_by([&] { return gather_by(crowded); }) == 0);
}

TEST_CASE_METHOD(Bench, "an unsafe post allocates nothing", "[channel]") {
  auto const every_operation = [&]() -> Result<void> {
    // SAFETY: nobody touches these bytes, and every handle is waited for.
    LEND_TRY(arrival, unsafe_post_receive(ends.b, memory.scatter(128, 64)));
    LEND_TRY(departure, unsafe_post_send(ends.a, memory.gather(0, 64)));
    LEND_TRYV(arrival.wait());
    LEND_TRYV(departure.wait());
    LEND_TRY(written, unsafe_post_write(ends.a, {memory.gather(0, 64), there}));
    LEND_TRYV(written.wait());
    LEND_TRY(fetched, unsafe_post_read(ends.a, {memory.scatter(256, 64), there}));
    LEND_TRYV(fetched.wait());
    return success();
  };

  CHECK(allocated_by(every_operation) == 0);
}

TEST_CASE_METHOD(Bench, "a scope that posts without end keeps its memory", "[channel]") {
  constexpr std::size_t lanes = 256;  // a target is on loan until seen: more than receive_depth
  PollingScope sending{ends.a}, receiving{ends.b};
  std::uint64_t before = 0;
  auto const result = [&]() -> Result<void> {
    for (std::uint64_t i = 0; i < posts_many; ++i) {
      if (i == warm_up) before = allocations();
      LEND_TRYV(receiving.post_receive(memory.scatter(64 + i % lanes * 8, 8)));
      LEND_TRYV(sending.post_send(memory.gather(0, 8)));
    }
    return success();
  }();
  auto const after = allocations();

  if (!result) FAIL(result.error().message());
  CHECK(after - before == 0);
  must(sending.finish());
  must(receiving.finish());
}

TEST_CASE("a failure that there is no memory to tell fails its scope all the same", "[channel]") {
  Bench bench;
  RemoteRegion const nobody{0x1000, 8, 0xbad0bad};
  Write const write{bench.memory.gather(0, 8), nobody.slice(0, 8)};
  std::optional<Error> error;
  SECTION("a manual one") {
    PollingScope scope{bench.ends.a};
    static_cast<void>(must(scope.post_write(write)));
    Famine const nothing{0};
    if (auto result = scope.finish(); !result.has_value()) error = std::move(result).assume_error();
  }
  SECTION("one with a closure, which succeeds") {
    std::optional<Famine> nothing;
    auto result = bench.ends.a.scope([&](PollingScope& scope) -> Result<int> {
      LEND_TRYV(scope.post_write(write));
      nothing.emplace(0u);
      return 7;
    });
    nothing.reset();
    if (!result.has_value()) error = std::move(result).assume_error();
  }
  REQUIRE(error);
  CHECK(*error == Errc::work_failed);
  CHECK(bench.memory.loans() == 0);
}

TEST_CASE("last_failures() ends without words where there was no memory for a failure",
          "[channel]") {
  bool const in_scope = GENERATE(true, false);
  CAPTURE(in_scope);
  for_each_failure(5, [&](std::uint64_t allowed) {
    Bench bench;
    auto& channel = bench.ends.a;
    auto const target = bench.memory.scatter(0, 8);
    Write const refused{bench.memory.gather(8, 8), RemoteRegion{0x1000, 8, 0xbad0bad}.slice(0, 8)};
    std::optional<PollingScope> scope;
    if (in_scope) {
      scope.emplace(channel);
      static_cast<void>(must(scope->post_receive(target)));
      static_cast<void>(must(scope->post_write(refused)));
    } else {
      // SAFETY: nobody touches these bytes.
      static_cast<void>(must(unsafe_post_receive(channel, target)));
      static_cast<void>(must(unsafe_post_write(channel, refused)));
    }

    std::optional<Famine> famine{allowed};
    if (in_scope)
      scope.reset();
    else
      static_cast<void>(channel.send(bench.memory.gather(16, 8), within(10s)));
    bool const needed_more = famine->was_felt();
    auto const failures = channel.last_failures();
    famine.reset();

    REQUIRE_FALSE(failures.empty());
    auto const& last = failures.back();
    CHECK(last == Errc::work_failed);
    CHECK((failures.size() == 2 || last.work() == nullptr));
    if (!needed_more) CHECK(last.work() != nullptr);
    CHECK(bench.memory.loans() == 0);
    { PollingScope next{channel}; }
    CHECK(channel.last_failures().empty());
    return needed_more;
  });
}

TEST_CASE("prepare_again() without memory leaves a broken channel, to be prepared later",
          "[channel]") {
  for_each_failure(5, [](std::uint64_t allowed) {
    Bench bench;
    PollingScope scope{bench.ends.a};
    static_cast<void>(must(scope.post_receive(bench.memory.scatter(0, 8))));

    bool is_prepared = false;
    starved(allowed, [&] { is_prepared = std::move(bench.ends.a).prepare_again().has_value(); });

    CHECK(bench.memory.loans() == 0);
    if (is_prepared) return false;
    // NOLINTNEXTLINE(bugprone-use-after-move): it stays when it fails.
    REQUIRE(bench.ends.a.first_cause() != nullptr);
    CHECK(std::move(bench.ends.a).prepare_again().has_value());
    return true;
  });
}

TEST_CASE("a message through a set allocates nothing, asleep or awake", "[allocation]") {
  Context const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto memory = must(domain.allocate(4096));
  auto set = must(WaitSet::create(context));
  ChannelOptions in_set;
  in_set.wait_set = &set;
  auto [server, client] = connected(domain, in_set, {});
  PollingScope scope{server};
  std::array<Ready, 4> room{};
  bool has_slept = false;
  CHECK(allocated_by([&, &client = client]() -> Result<void> {
          LEND_TRY(arrival, scope.post_receive(memory.scatter(0, 64)));
          LEND_TRY(may_sleep, set.arm());
          has_slept = has_slept || may_sleep;
          LEND_TRYV(client.send(memory.gather(64, 64), within(10s)));
          LEND_TRY(ready, set.wait(room, within(10s)));
          if (ready.size() != 1) return Errc::not_found;
          LEND_TRY(result, arrival.poll());
          return result ? Result<void>{success()} : Errc::not_found;
        }) == 0);
  CHECK(has_slept);
  must(scope.finish());
}

TEST_CASE("a datagram allocates nothing, neither to be sent nor to be received", "[channel]") {
  Datagrams ends;
  if (has_no_datagrams(ends.context)) return;
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  auto const room = ends.room(0);
  DatagramScope scope{ends.b};
  auto const datagram = [&]() -> Result<void> {
    LEND_TRY(pending, scope.post_receive(room));
    LEND_TRYV(ends.a.send(ends.memory.gather(0, 64), to_b));
    LEND_TRYV(pending.wait(within(5s)));
    return success();
  };
  CHECK(allocated_by(datagram) == 0);
  must(scope.finish());
}
