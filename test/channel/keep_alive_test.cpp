// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a keep-alive asks when it should, one question at a time, costs the user no room, and tells
// what it found. Method: planned faults of the soft device, which count each question as work.
#include <lend/soft/faults.hpp>

#include <cerrno>
#include <thread>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Asking {
  TwoEnds ends;
  MemoryRegion memory;

  explicit Asking(ChannelOptions const& options = asking())
      : ends{two_ends(options)}, memory{must(ends.domain.allocate(64))} {}
  static ChannelOptions asking() {
    auto options = options_with_depth(4);
    options.keep_alive = 1ms;
    options.queue_pair.connection.ack_timeout = 1ms;
    options.queue_pair.connection.ack_retries = 2;
    return options;
  }
  Error error_of_receive(std::chrono::milliseconds bound) {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    return error_of(must(scope.post_receive(memory.scatter(0, 8))).wait(within(bound)));
  }
};

}  // namespace

TEST_CASE("a channel that keeps alive tells of a lost peer, and of the question it left open",
          "[channel]") {
  Asking channel;
  must(inject_faults(channel.ends.context, FaultPlan{}.peer_dies(1)));

  auto const error = channel.error_of_receive(30s);

  CAPTURE(error.describe());
  CHECK(error == Errc::peer_lost);
  REQUIRE(error.cause() != nullptr);
  REQUIRE(error.cause()->work() != nullptr);
  CHECK(error.cause()->work()->status == WorkStatus::retry_exceeded);
  CHECK(error.flushed_along() == 1);
  auto const text = error.describe();
  for (auto const* const part :
       {"peer_lost: the peer did not answer the channel's keep-alive",
        "\n  work:  receive of 8 bytes, posted at ", "\n  cause: work_failed: a write of 0 ",
        "check that its process is alive", "1 request was flushed"})
    CHECK_THAT(text, Catch::Contains(part));
  CHECK(channel.memory.loans() == 0);
}

TEST_CASE("an event loop that only ever waits for no time at all is told of a lost peer",
          "[channel]") {
  auto options = Asking::asking();
  options.wait = Wait::event;
  Asking channel{options};
  must(inject_faults(channel.ends.context, FaultPlan{}.peer_dies(1)));
  PollingScope scope{channel.ends.a};
  scope.drain_within(0s);
  auto receive = must(scope.post_receive(channel.memory.scatter(0, 8)));

  auto const give_up = within(30s);
  auto answer = receive.wait(within(0s));
  int looks = 0;
  for (; !answer.has_value() && answer.error() == Errc::timed_out && !give_up.has_passed();
       ++looks) {
    std::this_thread::sleep_for(1ms);  // what else the loop does
    answer = receive.wait(within(0s));
  }
  CHECK(error_of(answer) == Errc::peer_lost);
  CHECK(looks < 400);  // rather than only once in 512
}

TEST_CASE("a loop that polls every now and then is told of a lost peer in time", "[channel]") {
  Asking channel;
  must(inject_faults(channel.ends.context, FaultPlan{}.peer_dies(1)));
  PollingScope scope{channel.ends.a};
  scope.drain_within(0s);
  auto receive = must(scope.post_receive(channel.memory.scatter(0, 8)));

  auto const give_up = within(30s);
  auto answer = receive.poll();
  int polls = 0;
  for (; answer.has_value() && !answer.value() && !give_up.has_passed(); ++polls) {
    std::this_thread::sleep_for(5ms);  // what else the loop does
    answer = receive.poll();
  }
  CHECK(error_of(answer) == Errc::peer_lost);
  CHECK(polls < 400);  // rather than only once in 512
}

TEST_CASE("questions that are answered late, or refused, are not taken for a lost peer",
          "[channel]") {
  Asking channel;
  SECTION("late") {
    must(inject_faults(channel.ends.context, FaultPlan{}.drop(1, 2).delay(2, 5ms)));
    CHECK(channel.error_of_receive(50ms) == Errc::timed_out);
  }
  SECTION("the queue pair was flushed by somebody") {
    must(inject_faults(channel.ends.context, FaultPlan{}.flush(1)));
    CHECK(channel.error_of_receive(30s).is_flush());
  }
}

TEST_CASE("a channel asks nobody unless it was told to", "[channel]") {
  auto options = Asking::asking();
  options.keep_alive = 0ms;
  Asking channel{options};
  must(inject_faults(channel.ends.context, FaultPlan{}.flush(1)));
  CHECK(channel.error_of_receive(30ms) == Errc::timed_out);
}

TEST_CASE("a channel asks nobody while work of its own will tell", "[channel]") {
  Asking channel;
  auto& [ends, memory] = channel;
  must(inject_faults(ends.context, FaultPlan{}.delay(1, 30ms).flush(2)));
  PollingScope receiving{ends.b};
  static_cast<void>(must(receiving.post_receive(memory.scatter(32, 8))));
  PollingScope scope{ends.a};
  scope.drain_within(0s);
  static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
  must(must(scope.post_send(memory.gather(16, 8))).wait(within(5s)));
  CHECK(ends.a.first_cause() == nullptr);
  must(receiving.finish());
}

TEST_CASE("while one question is open no second is asked", "[channel]") {
  Asking channel;
  // The first is open for long; a second would be the one that breaks the queue pair.
  must(inject_faults(channel.ends.context, FaultPlan{}.delay(1, 10s).flush(2)));
  CHECK(channel.error_of_receive(60ms) == Errc::timed_out);
  CHECK(*channel.ends.a.first_cause() == Errc::timed_out);
}

TEST_CASE("a keep-alive takes none of the user's room", "[channel]") {
  Asking channel;
  auto& [ends, memory] = channel;
  must(inject_faults(ends.context, FaultPlan{}.delay(1, 20ms)));
  PollingScope scope{ends.a};
  auto receive = must(scope.post_receive(memory.scatter(0, 8)));
  CHECK(error_of(receive.wait(within(5ms))) == Errc::timed_out);  // it is asking

  for (std::size_t i = 0; i < 4; ++i)
    static_cast<void>(must(scope.try_post_send(memory.gather(40, 8))));
  CHECK(error_of(scope.try_post_send(memory.gather(40, 8))) == Errc::queue_full);
  PollingScope receiving{ends.b};
  for (std::size_t i = 0; i < 4; ++i)
    static_cast<void>(must(receiving.post_receive(memory.scatter(8 + 8 * i, 8))));
  CHECK(ends.a.send_depth() == 4);
  CHECK(ends.a.endpoint().send_depth == 4);
  must(receiving.finish());
  must(ends.b.send(memory.gather(48, 8)));
  CHECK(must(receive.wait(within(5s))).bytes == 8);
  must(scope.finish());
}

TEST_CASE("an interval that is too short is refused", "[channel]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const domain = must(context.allocate_protection_domain());
  auto const builder = channel_builder().protection_domain(domain);
  for (auto const interval : {-1ns, 1ns, 999'999ns})
    CHECK(error_of(builder.keep_alive(interval).build()) == Errc::invalid_argument);
  CHECK(builder.keep_alive(1ms).build().has_value());
  CHECK(builder.keep_alive(0ms).build().has_value());
  auto const deepest = static_cast<std::uint32_t>(context.limits().work_requests_max);
  auto const error = error_of(builder.send_depth(deepest).keep_alive(1ms).build());
  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains("send_depth with the room of a keep-alive"));
}

TEST_CASE("a channel that could not be prepared again can be later", "[channel]") {
  Asking channel;
  auto& [ends, memory] = channel;
  must(inject_faults(ends.context, FaultPlan{}.control_call_fails(2, ENOMEM)));
  CHECK(error_of(std::move(ends.a).prepare_again()) == Errc::exhausted);
  must(inject_faults(ends.context, {}));

  // NOLINTBEGIN(bugprone-use-after-move): it stays when it fails.
  CHECK(error_of(ends.a.send(memory.gather(0, 8))) == Errc::channel_broken);
  auto prepared = must(std::move(ends.a).prepare_again());
  // NOLINTEND(bugprone-use-after-move)
  auto const self = prepared.endpoint();
  auto again = must(std::move(prepared).handshake(self));
  PollingScope scope{again};
  static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
  must(again.send(memory.gather(8, 8), within(5s)));
  must(scope.finish());
}

TEST_CASE("a peer that permits no remote writes refuses the keep-alive, which breaks the channel",
          "[channel]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto memory = must(domain.allocate(64));
  auto unwilling = options_with_depth(4);
  unwilling.queue_pair.remote_access = RemoteAccess::read;
  auto [asking, peer] = connected(domain, Asking::asking(), unwilling);
  PollingScope scope{asking};
  scope.drain_within(0s);
  auto arrival = must(scope.post_receive(memory.scatter(0, 8)));
  auto const error = error_of(arrival.wait(within(10s)));
  CAPTURE(error.describe());
  REQUIRE(asking.first_cause() != nullptr);
  REQUIRE(asking.first_cause()->work() != nullptr);
  CHECK(asking.first_cause()->work()->status == WorkStatus::remote_invalid_request);
}
