// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel keeps its promises on devices that do what verbs allow and few do. Method: the
// fake provider, which grants more than was asked for, answers a full queue at odd moments, and
// flushes nothing of itself.
#include "channel/fake_end.hpp"
#include "support/catch.hpp"

#include <sched.h>

#include <lend/lend.hpp>
#include <verbs/queue/adoption.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Whoever watches a connection, and tells what the test makes it tell.
struct Watcher : verbs::ConnectionKeeper {
  static inline std::optional<Error> told{};
  static inline Deadline::Clock::duration longest{};
  std::optional<Error> lost(Deadline deadline) noexcept override {
    longest = std::max(longest, deadline.left());
    return told;
  }
  int descriptor() const noexcept override { return -1; }
};

FakeEnd watched_end() {
  Fake::get().reset({});
  Watcher::told.reset();
  Watcher::longest = {};
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto prepared = prepare_channel(domain, one_element()).value();
  auto connected =
      verbs::QueuePairAccess::connected(prepared.take_queue_pair(), std::make_unique<Watcher>());
  return {domain.allocate(64).value(), std::move(prepared).adopt(std::move(connected)).value()};
}

void complete_next(ibv_wc_status status) {
  if (Fake::get().posted.empty()) return;
  complete(Fake::get().posted.front(), status);
  Fake::get().posted.pop_front();
}

/// A device that flushes in its own order: what was posted last comes first.
void flush_backward() {
  std::ranges::reverse(Fake::get().posted);
  while (!Fake::get().posted.empty()) complete_next(IBV_WC_WR_FLUSH_ERR);
}

}  // namespace

TEST_CASE("as many elements as were asked for are posted, whatever the device granted",
          "[channel]") {
  auto end = fake_end({.elements_granted = 1});
  PollingScope scope{end.channel};
  auto const refused = scope.post_send({end.memory.gather(0, 8), end.memory.gather(8, 8)});
  CHECK(refused.error() == Errc::invalid_argument);
  CHECK(Fake::get().posted.empty());
  CHECK(end.memory.loans() == 0);
}

TEST_CASE("what a broken queue pair never brings back, a wait gets back all the same",
          "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  auto first = scope.post_receive(end.memory.scatter(0, 8)).value();
  auto second = scope.post_receive(end.memory.scatter(8, 8)).value();
  complete_next(IBV_WC_LOC_PROT_ERR);
  CHECK(first.wait().error() == Errc::work_failed);
  CHECK(second.wait().error() == Errc::work_failed);  // without a deadline
  CHECK(end.memory.loans() == 0);
  CHECK(scope.finish().has_value());
}

TEST_CASE("what a broken queue pair never brings back, a loop of polls gets back too",
          "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  auto first = scope.post_receive(end.memory.scatter(0, 8)).value();
  auto second = scope.post_receive(end.memory.scatter(8, 8)).value();
  complete_next(IBV_WC_LOC_PROT_ERR);
  CHECK(first.poll().error() == Errc::work_failed);
  CHECK(!second.poll().value().has_value());  // at once
  auto const give_up = within(20s);
  auto answer = second.poll();
  while (answer.has_value() && !answer.value() && !give_up.has_passed()) {
    std::this_thread::sleep_for(5ms);
    answer = second.poll();
  }
  REQUIRE(!answer.has_value());
  CHECK(answer.error().is_flush());
  CHECK(end.memory.loans() == 0);
}

TEST_CASE("a poll that finds the peer gone breaks the channel and waits for nothing", "[channel]") {
  auto end = watched_end();
  PollingScope scope{end.channel};
  auto work = scope.post_receive(end.memory.scatter(0, 8)).value();
  auto& fake = Fake::get();

  SECTION("before any completion") {
    Watcher::told = Error{Errc::peer_lost, "the peer disconnected"};
    // It looks now and then.
    for (int i = 0; i < 1000 && end.channel.first_cause() == nullptr; ++i)
      CHECK(!work.poll().value().has_value());
    REQUIRE(end.channel.first_cause() != nullptr);
    CHECK(*end.channel.first_cause() == Errc::peer_lost);
    auto const polls = fake.polls.size();
    CHECK(!work.poll().value().has_value());
    CHECK(fake.polls.size() == polls + 1);
    complete_next(IBV_WC_WR_FLUSH_ERR);
    CHECK(work.poll().error() == Errc::peer_lost);
  }
  SECTION("by a flush that comes before its reason") {
    complete_next(IBV_WC_WR_FLUSH_ERR);
    CHECK(!work.poll().value().has_value());
    CHECK(end.memory.loans() == 0);
    Watcher::told = Error{Errc::peer_lost, "the peer disconnected"};
    CHECK(work.poll().error() == Errc::peer_lost);
    CHECK(*end.channel.first_cause() == Errc::peer_lost);
  }
  SECTION("by a flush whose reason never comes") {
    complete_next(IBV_WC_WR_FLUSH_ERR);
    auto answer = work.poll();
    for (auto const give_up = within(20s);
         answer.has_value() && !answer.value() && !give_up.has_passed();)
      answer = work.poll();
    CHECK(answer.error().is_flush());
    CHECK(end.channel.first_cause()->is_flush());
  }
  CHECK(Watcher::longest <= 1ms);
}

TEST_CASE("waits for no time at all look whether the peer is gone, as polls do", "[channel]") {
  // On one processor a wait does not spin: it ends before its first pause does.
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  auto end = watched_end();
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
  PollingScope scope{end.channel};
  auto work = scope.post_receive(end.memory.scatter(0, 8)).value();
  Watcher::told = Error{Errc::peer_lost, "the peer disconnected"};
  Fake::get().at_error = flush_backward;
  int waits = 1;
  auto answer = work.wait(within(0s));
  for (; answer.error() == Errc::timed_out && waits < 1000; ++waits) answer = work.wait(within(0s));
  CHECK(answer.error() == Errc::peer_lost);
}

TEST_CASE("the event of a failure that ended the connection says more than its manager",
          "[channel]") {
  auto end = watched_end();
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_ACCESS_ERR;
  event.element.qp = Fake::get().last_queue_pair;
  Fake::get().raise(event);
  Watcher::told = Error{Errc::peer_lost, "the peer disconnected"};
  for (int i = 0; i < 1000 && end.channel.first_cause() == nullptr; ++i)
    CHECK(end.channel.poll().has_value());
  REQUIRE(end.channel.first_cause() != nullptr);
  CHECK(*end.channel.first_cause() == Errc::device_event);
}

TEST_CASE("a scope's end tells the reason of a flush that came before it", "[channel]") {
  auto end = watched_end();
  PollingScope scope{end.channel};
  auto held = scope.post_receive(end.memory.scatter(0, 8)).value();
  static_cast<void>(scope.post_receive(end.memory.scatter(8, 16)).value());
  complete_next(IBV_WC_WR_FLUSH_ERR);
  complete_next(IBV_WC_WR_FLUSH_ERR);
  CHECK(!held.poll().value().has_value());
  Watcher::told = Error{Errc::peer_lost, "the peer disconnected"};
  auto const error = scope.finish().error();
  CHECK(error == Errc::peer_lost);
  REQUIRE(error.drained().size() == 2);
  for (Error const& failure : error.drained()) CHECK(failure == Errc::peer_lost);
  // As they were seen, though the handle kept the first one back.
  CHECK(error.drained()[0].describe().find("receive of 8 bytes") != std::string::npos);
  CHECK(error.drained()[1].describe().find("receive of 16 bytes") != std::string::npos);
}

TEST_CASE("a wait that sees a flush waits for the reason too", "[channel]") {
  auto end = watched_end();
  PollingScope scope{end.channel};
  auto work = scope.post_receive(end.memory.scatter(0, 8)).value();
  complete_next(IBV_WC_WR_FLUSH_ERR);
  CHECK(work.wait(within(0s)).error().is_flush());
  CHECK(Watcher::longest > 1ms);
}

TEST_CASE("a device that says full where there is room is asked again until the deadline",
          "[channel]") {
  auto options = one_element();
  options.observe.metrics = true;
  auto end = fake_end({}, options);
  PollingScope scope{end.channel};
  auto work = scope.post_send(end.memory.gather(8, 8)).value();
  Fake::get().post_result = ENOMEM;
  CHECK(end.channel.send(end.memory.gather(0, 8), within(5ms)).error() == Errc::timed_out);
  CHECK(scope.post_send(end.memory.gather(0, 8), within(5ms)).error() == Errc::timed_out);
  if (end.channel.metrics() != nullptr) CHECK(end.channel.metrics()->room_waits == 2);
  CHECK(end.memory.loans() == 1);
  complete_next(IBV_WC_SUCCESS);
  CHECK(scope.finish().has_value());
}

TEST_CASE("a device that says full while nothing is outstanding ends the wait for room",
          "[channel]") {
  auto end = fake_end();
  Fake::get().post_result = ENOMEM;
  PollingScope scope{end.channel};
  std::optional<Error> error;
  SECTION("of a post") {
    error = scope.post_receive(end.memory.scatter(0, 8)).error();
  }
  SECTION("of a blocking call") {
    error = end.channel.send(end.memory.gather(0, 8)).error();
  }
  SECTION("beside work of the other direction") {
    Fake::get().post_result = 0;
    auto const receive = scope.post_receive(end.memory.scatter(0, 8)).value();
    Fake::get().post_result = ENOMEM;
    error = scope.post_send(end.memory.gather(8, 8)).error();
    complete_next(IBV_WC_SUCCESS);
  }
  CHECK(*error == Errc::system_failed);
  CHECK_THAT(error->describe(), Catch::Contains("nothing was posted; the channel is as before") &&
                                    Catch::Contains(" of 8 bytes, to be posted at "));
  Fake::get().post_result = 0;
  auto again = scope.post_send(end.memory.gather(8, 8)).value();
  complete_next(IBV_WC_SUCCESS);
  CHECK(again.wait().has_value());
  CHECK(scope.finish().has_value());
  CHECK(end.memory.loans() == 0);
}

// Eight thousand are enough: were each looked for among the others, this would not end today.
TEST_CASE("a scope ends as many handles as there may be, in the order of their failures",
          "[channel]") {
  constexpr std::uint32_t depth = 4096;
  ChannelOptions options;
  options.queue_pair = {.send_depth = depth, .receive_depth = depth, .elements = 1};
  auto end = fake_end({.work_requests_max = depth, .completions_max = 2 * depth}, options);
  std::vector<PendingWork> held;
  PollingScope scope{end.channel};
  for (std::uint32_t i = 0; i < 2 * depth; ++i)
    held.push_back((i < depth ? scope.post_send(Send::only_immediate(i))
                              : scope.post_receive(Receive::only_immediate()))
                       .value());
  flush_backward();

  auto const error = scope.finish().error();

  REQUIRE(error.drained().size() == 2 * depth);
  auto const slot_of = [](Error const& failure) { return failure.work()->slot; };
  CHECK(std::ranges::is_sorted(error.drained(), std::ranges::greater{}, slot_of));
  CHECK(held.front().poll().error() == Errc::stale_handle);
}

TEST_CASE("what a device keeps for good stays on loan for good, and the error says so",
          "[channel]") {
  auto end = std::make_optional(fake_end());
  auto& fake = Fake::get();
  fake.fail_after(0, EIO);                        // the transition to the error state
  fake.fail_destruction = fake.destructions + 1;  // the queue pair's
  std::optional<Error> error;
  SECTION("a scope") {
    PollingScope scope{end->channel};
    scope.drain_within(0s);
    static_cast<void>(scope.post_receive(end->memory.scatter(0, 8)).value());
    error = scope.finish().error();
    CHECK(*error == Errc::timed_out);
    REQUIRE(error->drained().size() == 1);
    error = error->drained()[0];
  }
  SECTION("a blocking call") {
    error = end->channel.receive(end->memory.scatter(0, 8), within(0s)).error();
  }

  CHECK(*error == Errc::system_failed);
  CHECK(error->os_error() == EIO);
  CHECK_THAT(error->describe(), Catch::Contains("stay on loan for good") &&
                                    Catch::Contains("work:  receive of 8 bytes, posted"));
  CHECK(*end->channel.first_cause() == Errc::timed_out);
  CHECK(end->memory.loans() == 1);
  { auto const gone = std::move(end->channel); }
  CHECK(end->memory.mutable_bytes(0, 1).error() == Errc::already_borrowed);
  CHECK(end->memory.mutable_bytes(8, 1).has_value());
  end.reset();
  CHECK(fake.live("storage") == 1);  // leaked rather than used for something else
  CHECK(fake.live("region") == 1);
  CHECK(fake.violations.empty());
}

TEST_CASE("what a flush brings to light is the first cause, not the deadline that it was for",
          "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  auto work = scope.post_send(end.memory.gather(0, 8)).value();
  Fake::get().at_error = [] { complete_next(IBV_WC_RETRY_EXC_ERR); };
  std::optional<Error> error;
  SECTION("of a drain") {
    scope.drain_within(0s);
    error = scope.finish().error();
    CHECK(*error == Errc::timed_out);
    REQUIRE(error->drained().size() == 1);
    error = error->drained()[0];
  }
  SECTION("of a blocking call") {
    complete_next(IBV_WC_SUCCESS);
    CHECK(work.wait().has_value());
    error = end.channel.send(end.memory.gather(0, 8), within(0s)).error();
  }
  CHECK(error->work()->status == WorkStatus::retry_exceeded);
  CHECK(error->cause() == nullptr);
  CHECK_THAT(error->describe(), Catch::Contains("check that its process is alive"));
  CHECK(end.channel.first_cause()->message() == error->message());
}

TEST_CASE("lend's own reason for a flush does not hide that the device had flushed before",
          "[channel]") {
  auto end = fake_end();
  Fake::get().at_error = flush_backward;
  auto const leave = [&] {
    PollingScope scope{end.channel};
    auto first = scope.post_receive(end.memory.scatter(0, 8)).value();
    static_cast<void>(scope.post_receive(end.memory.scatter(8, 8)).value());
    Fake::get().at_error = {};  // it has flushed one, and keeps the other
    complete_next(IBV_WC_WR_FLUSH_ERR);
    CHECK(first.poll().error().is_flush());
    Fake::get().at_error = flush_backward;
    throw 1;
  };
  CHECK_THROWS(leave());
  CHECK(end.channel.first_cause()->is_flush());
  CHECK(end.channel.first_cause()->flushed_along() == 1);
}

TEST_CASE(
    "work that completes while it is flushed at its deadline succeeds, and the channel is broken",
    "[channel]") {
  auto end = fake_end();
  Fake::get().at_error = [] { complete_next(IBV_WC_SUCCESS); };
  CHECK(end.channel.send(end.memory.gather(0, 8), within(0s)).has_value());
  CHECK(*end.channel.first_cause() == Errc::timed_out);
}

TEST_CASE("what a failed handshake cannot take from the device stays on loan", "[channel]") {
  auto& fake = Fake::get();
  fake.reset({});
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto memory = domain.allocate(64).value();
  {
    auto prepared = prepare_channel(domain, one_element()).value();
    auto const itself = prepared.endpoint();
    REQUIRE(prepared.post_receive(memory.scatter(0, 8)).has_value());
    fake.fail_after(0, EIO);
    fake.fail_destruction = fake.destructions + 1;
    CHECK_FALSE(std::move(prepared).handshake(itself).has_value());
  }
  CHECK(memory.loans() == 1);
}
