// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: metrics count each request once, by what it was and how it ended. Random programs compare
// them with what the device has seen: test/soft/programs.
#include <lend/channel/unsafe.hpp>

#include <iostream>

#include "support/catch.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

ChannelOptions with_metrics() {
  ChannelOptions options;
  options.observe.metrics = true;
  return options;
}

std::uint64_t ended(OperationMetrics const& its) {
  return its.completed + its.failed + its.flushed;
}

}  // namespace

TEST_CASE("a channel counts only where it was asked to", "[observe]") {
  if (std::getenv("LEND_RECORD") != nullptr) return;
  auto ends = two_ends();
  CHECK(ends.a.metrics() == nullptr);
}

TEST_CASE("metrics count operations, bytes and latencies of each way to post", "[observe]") {
  auto ends = two_ends(with_metrics());
  auto memory = must(ends.domain.allocate(4096));
  constexpr std::uint32_t rounds = 10;

  for (std::uint32_t i = 0; i < rounds; ++i) {
    PollingScope receiving{ends.b};
    auto received = must(receiving.post_receive(memory.scatter(64, 64)));
    must(ends.a.send(memory.gather(0, 8)));
    CHECK(must(received.wait()).bytes == 8);
    must(receiving.finish());
  }
  {
    PollingScope receiving{ends.b};
    auto first = must(receiving.post_receive(memory.scatter(64, 64)));
    auto second = must(receiving.post_receive(memory.scatter(128, 64)));
    PollingScope sending{ends.a};
    auto batch = sending.batch();
    static_cast<void>(must(batch.add_send(memory.gather(0, 8))));
    static_cast<void>(must(batch.add_send(memory.gather(8, 8))));
    must(batch.post());
    must(sending.finish());
    must(receiving.finish());
  }

  auto const& sends = ends.a.metrics()->of(Operation::send);
  CHECK(sends.posted == rounds + 2);
  CHECK(sends.completed == rounds + 2);
  CHECK(sends.bytes == 8 * (rounds + 2));
  CHECK(sends.latency.count() == rounds + 2);
  CHECK(sends.latency.percentile(100) < std::chrono::seconds{60});
  CHECK(sends.latency.percentile(100) > std::chrono::nanoseconds{0});
  CHECK(ends.a.metrics()->sends_outstanding_max == 2);
  auto const& receives = ends.b.metrics()->of(Operation::receive);
  CHECK(receives.posted == rounds + 2);
  CHECK(receives.completed == rounds + 2);
  CHECK(receives.bytes == 8 * (rounds + 2));
  CHECK(ends.b.metrics()->receives_outstanding_max == 2);
  CHECK(ends.b.metrics()->of(Operation::send).posted == 0);
}

TEST_CASE("of each operation there are metrics, of loans to the peer only zeros", "[observe]") {
  auto ends = two_ends(with_metrics());
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  static_cast<void>(must(scope.post_receive(memory.scatter(32, 32))));
  must(ends.a.send(memory.gather(0, 8)));
  must(scope.finish());

  ChannelMetrics const copy = *ends.a.metrics();
  CHECK(copy.of(Operation::send).posted == 1);
  for (auto const operation : {Operation::lend, Operation::recall}) {
    CHECK(copy.of(operation).posted == 0);
    CHECK(copy.of(operation).bytes == 0);
    CHECK(copy.of(operation).latency.count() == 0);
  }
}

TEST_CASE("what fails, what is flushed and what is refused are told apart", "[observe]") {
  auto ends = two_ends(with_metrics());
  auto memory = must(ends.domain.allocate(4096));
  auto const& metrics = *ends.a.metrics();

  {
    PollingScope scope{ends.a};
    auto waiting = must(scope.post_receive(memory.scatter(64, 64)));
    CHECK_FALSE(scope.post_receive(memory.scatter(64, 64)).has_value());  // on loan
    auto failing = post_failing(ends, scope, memory);
    CHECK(failing.wait().has_error());
    static_cast<void>(scope.finish());
  }

  std::uint64_t failed = 0;
  std::uint64_t flushed = 0;
  for (auto const& its : metrics.operations) {
    CHECK(its.posted == ended(its));
    failed += its.failed;
    flushed += its.flushed;
  }
  CHECK(failed == 1);
  CHECK(flushed == 1);
  CHECK(metrics.of(Operation::receive).flushed == 1);
}

TEST_CASE("a post that waits for room is counted, and so are the ways of waiting", "[observe]") {
  auto options = with_metrics();
  options.queue_pair.send_depth = 1;
  options.wait = Wait::event;
  auto ends = two_ends(options);
  auto memory = must(ends.domain.allocate(4096));

  PollingScope scope{ends.a};
  auto receive = must(scope.post_receive(memory.scatter(64, 64)));
  CHECK(receive.wait(within(std::chrono::milliseconds{20})).has_error());
  PollingScope receiving{ends.b};
  auto there = must(receiving.post_receive(memory.scatter(128, 64)));
  auto here = must(receiving.post_receive(memory.scatter(192, 64)));
  auto first = must(scope.post_send(memory.gather(0, 8)));
  auto second = must(scope.post_send(memory.gather(8, 8)));
  scope.drain_within(std::chrono::milliseconds{1});
  static_cast<void>(scope.finish());

  auto const& metrics = *ends.a.metrics();
  CHECK(metrics.room_waits >= 1);
  CHECK(metrics.sleeps + metrics.naps >= 1);
  CHECK(metrics.sends_outstanding_max == 1);
}

// For probes_test.py, which counts the same by the probes.
TEST_CASE("what every way to post and to end has counted", "[.]") {
  auto ends = two_ends(with_metrics());
  auto memory = must(ends.domain.allocate(4096));
  for (int i = 0; i < 5; ++i) {
    PollingScope receiving{ends.b};
    auto received = must(receiving.post_receive(memory.scatter(64, 64)));
    must(ends.a.send(memory.gather(0, 8)));
    must(received.wait());
    static_cast<void>(must(receiving.post_receive(memory.scatter(128, 8))));
    must(ends.a.send(Send{memory.gather(0, 8)}.with_immediate(1)));
    must(receiving.finish());
  }
  {
    PollingScope receiving{ends.b};
    PollingScope sending{ends.a};
    auto batch = sending.batch();
    for (std::size_t i = 0; i < 3; ++i) {
      static_cast<void>(must(receiving.post_receive(memory.scatter(64 + 64 * i, 64))));
      static_cast<void>(must(batch.add_send(memory.gather(8 * i, 8))));
    }
    must(batch.post());
    must(sending.finish());
    must(receiving.finish());
  }
  {
    PollingScope scope{ends.a};
    auto waiting = must(scope.post_receive(memory.scatter(64, 64)));
    auto failing = post_failing(ends, scope, memory);
    CHECK(failing.wait().has_error());
    static_cast<void>(scope.finish());
  }
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  std::uint64_t flushed = 0;
  for (auto const* const channel : {&ends.a, &ends.b})
    for (auto const& its : channel->metrics()->operations) {
      posted += its.posted;
      completed += its.completed + its.failed;
      flushed += its.flushed;
    }
  std::cout << "post " << posted << "\ncomplete " << completed << "\nflush " << flushed << '\n';
}

TEST_CASE("a channel counts what it has lent, and how that ended", "[observe]") {
  auto ends = two_ends(with_metrics());
  if (lacks(ends.context, &DeviceCapabilities::peer_loans)) return;
  auto memory = must(ends.domain.allocate(64));
  auto const& counted = ends.a.metrics()->peer_loans;
  auto const are = [&](std::uint64_t lent, std::uint64_t returned, std::uint64_t recalled,
                       std::uint64_t ended, std::uint64_t refused) {
    static_cast<void>(ends.a.metrics());  // counts what came since
    CHECK(counted.lent == lent);
    CHECK(counted.returned == returned);
    CHECK(counted.recalled == recalled);
    CHECK(counted.ended == ended);
    CHECK(counted.refused == refused);
  };
  using namespace std::chrono_literals;
  PollingScope scope{ends.a};
  auto first = must(scope.post_lend(memory.scatter(0, 16)));
  CHECK(error_of(scope.post_lend(memory.gather(8, 16))) == Errc::already_borrowed);
  CHECK(error_of(scope.post_lend(memory.gather(0, 0))) == Errc::invalid_argument);
  are(1, 0, 0, 0, 2);

  auto reply = must(scope.post_receive(Receive::only_immediate()));
  must(ends.b.send(Send::only_returning(first.remote())));
  must(reply.wait(within(10s)));
  are(1, 1, 0, 0, 2);
  must(first.recall());  // which has nothing to do

  auto second = must(scope.post_lend(memory.scatter(0, 16)));
  must(second.recall(within(10s)));
  {
    PollingScope inner{ends.a};
    static_cast<void>(must(inner.post_lend(memory.scatter(0, 16))));
  }
  are(3, 1, 2, 0, 2);

  static_cast<void>(must(scope.post_lend(memory.scatter(0, 16))));
  static_cast<void>(error_of(ends.a.write({memory.gather(32, 8), nobody(8)})));
  static_cast<void>(scope.finish());
  CHECK(error_of(scope.post_lend(memory.scatter(0, 16))) == Errc::stale_handle);
  are(4, 1, 2, 1, 2);
}
