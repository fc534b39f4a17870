// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each fault tells its story, a line each: what, to which operation of which peer, in
// which state, first cause or flushed along, and what to do. Method: real faults on the soft
// device; whole texts are compared, but for what differs from run to run.
#include <lend/channel/unsafe.hpp>

#include <cerrno>
#include <optional>

#include "channel/story.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("a refused write tells what was refused, where it was posted and what to do",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  auto const error = error_of(ends.a.write({memory.gather(0, 8), nobody(8)}));
  check_story("a refused write", error);
  CHECK(error.cause() == nullptr);
  auto const later = error_of(ends.a.send(memory.gather(0, 8)));
  check_story("a send after a refused write", later);
  CHECK(*later.cause() == Errc::work_failed);
}

TEST_CASE("what a failure flushed along names it as the first cause, which counts them",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.a};
  auto first = must(scope.post_receive(memory.scatter(64, 64)));
  auto failing = must(scope.post_write({memory.gather(0, 8), nobody(8)}));
  SECTION("by handle") {
    auto last = must(scope.post_send(memory.gather(0, 1)));
    auto const cause = error_of(failing.wait(within(5s)));
    auto const flushed = error_of(first.wait(within(5s)));
    static_cast<void>(last.wait(within(5s)));
    check_story("a receive flushed along, by its handle", flushed);
    CHECK(cause.flushed_along() == 2);
    CHECK(story_of(cause) == story_of(*ends.a.first_cause()));
    CHECK(story_of(*flushed.cause()) == story_of(cause));
    CHECK(error_of(last.poll()).is_flush());
    must(scope.finish());
  }
  SECTION("by the end of the scope") {
    check_story("a write that flushed others along, by the end of the scope",
                error_of(scope.finish()));
  }
  SECTION("by the end of a scope whose failure another handle had") {
    CHECK(error_of(failing.wait(within(5s))) == Errc::work_failed);
    { auto const dropped = std::move(first); }
    check_story("a receive flushed along, by the end of the scope", error_of(scope.finish()));
  }
}

TEST_CASE("work posted unsafely tells its story without a line", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  { auto const dropped = must(unsafe_post_receive(ends.a, memory.scatter(0, 8))); }
  check_story("a write posted unsafely",
              error_of(must(unsafe_post_write(ends.a, {memory.gather(8, 8), nobody(8)})).wait()));
  CHECK(error_of(unsafe_post_send(ends.a, memory.gather(0, 8))) == Errc::channel_broken);
  REQUIRE(ends.a.last_failures().size() == 1);
  CHECK(ends.a.last_failures()[0].is_flush());
  CHECK(ends.a.last_failures()[0].cause()->work()->operation == Operation::write);
}

TEST_CASE("a message too long for its receive tells both sides why", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.b};
  auto receive = must(scope.post_receive(memory.scatter(64, 4)));
  check_story("a send longer than its receive", error_of(ends.a.send(memory.gather(0, 8))));
  check_story("a receive shorter than its message", error_of(receive.wait(within(5s))));
}

TEST_CASE("a peer without a receive and a peer that is gone are told apart", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  SECTION("no receive") {
    check_story("a send without a receive", error_of(ends.a.send(memory.gather(0, 1))));
  }
  SECTION("gone") {
    { auto const gone = std::move(ends.b); }
    check_story("a send to a peer that is gone", error_of(ends.a.send(memory.gather(0, 1))));
  }
}

TEST_CASE("memory that went away under unsafe work is told on both sides", "[channel]") {
  Story story{.ends = Story::two_ends(std::nullopt)};
  auto& [ends, memory] = story;
  auto gone = std::make_optional(must(ends.domain.allocate(2048)));
  SECTION("a receive's") {
    auto receive = must(unsafe_post_receive(ends.b, gone->scatter(0, 8)));
    gone.reset();
    check_story("a send to a receive whose memory is gone",
                error_of(ends.a.send(memory.gather(0, 8), within(5s))));
    check_story("a receive whose memory is gone", error_of(receive.wait(within(5s))));
  }
  SECTION("a send's") {
    auto send = must(unsafe_post_send(ends.a, gone->gather(0, 2048)));
    gone.reset();
    PollingScope scope{ends.b};
    scope.drain_within(0s);
    static_cast<void>(must(scope.post_receive(memory.scatter(0, 2048))));
    check_story("a send whose memory is gone", error_of(send.wait(within(5s))));
  }
}

TEST_CASE("a queue pair that breaks without a failure says that it does not know why",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  must(inject_faults(ends.context, FaultPlan{}.flush(1)));
  check_story("a send flushed without a cause",
              error_of(ends.a.send(memory.gather(0, 8), within(5s))));
}

TEST_CASE("a failed completion queue says what became of the work", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  must(inject_faults(ends.context, FaultPlan{}.completion_queue_fails(1)));
  PollingScope scope{ends.a};
  auto work = must(scope.post_send(memory.gather(0, 8)));
  check_story("a send in a failed completion queue", error_of(work.wait(within(5s))));
  check_story("the end of a scope with a failed completion queue", error_of(scope.finish()));
}

TEST_CASE("a deadline tells which work it was and whether the channel is broken", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  SECTION("of a blocking call") {
    auto const error = error_of(ends.a.receive(memory.scatter(0, 64), within(1ms)));
    check_story("a blocking receive past its deadline", error);
    CHECK(story_of(error) == story_of(*ends.a.first_cause()));
    check_story("a send after a receive past its deadline",
                error_of(ends.a.send(memory.gather(0, 1))));
  }
  SECTION("of a wait, and of a drain") {
    PollingScope scope{ends.a};
    scope.drain_within(1ms);
    auto receive = must(scope.post_receive(memory.scatter(0, 4)));
    check_story("a wait past its deadline", error_of(receive.wait(within(0s))));
    check_story("a drain past its deadline", error_of(scope.finish()));
  }
  SECTION("of a wait that slept") {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    auto receive = must(scope.post_receive(memory.scatter(0, 4)));
    check_story("a wait that slept past its deadline", error_of(receive.wait(within(1s))));
  }
  SECTION("of a wait for room") {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    for (std::size_t i = 0; i < story_depth; ++i)
      static_cast<void>(must(scope.post_receive(memory.scatter(8 * i, 8))));
    check_story("no room", error_of(scope.try_post_receive(memory.scatter(1024, 4))));
    check_story("a wait for room past its deadline",
                error_of(scope.post_receive(memory.scatter(1024, 4), within(1ms))));
  }
}

TEST_CASE("what was refused before it was posted leaves a channel that works", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.b};
  scope.drain_within(0s);
  static_cast<void>(must(scope.post_receive(memory.scatter(64, 4))));
  check_story("a receive into bytes on loan", error_of(scope.post_receive(memory.scatter(64, 8))));
  check_story("a look at bytes on loan", error_of(memory.bytes(64, 8)));
  check_story("a receive out of bounds", error_of(scope.post_receive(memory.scatter(64, 5000))));
  must(inject_faults(ends.context, FaultPlan{}.control_call_fails(1, ENOMEM)));
  check_story("an allocation that the device refuses", error_of(ends.domain.allocate(64)));
}

TEST_CASE("a channel that is gone, or a scope left half asked, says what became of the work",
          "[channel]") {
  Story story;
  auto& ends = story.ends;
  auto& memory = story.memory;
  SECTION("the channel is gone") {
    PollingScope scope{ends.b};
    auto held = must(scope.post_receive(memory.scatter(0, 4)));
    static_cast<void>(must(scope.post_receive(memory.scatter(64, 4))));
    { auto const gone = std::move(ends.b); }
    check_story("work of a channel that is gone", error_of(held.wait()));
    check_story("a scope whose channel is gone", error_of(scope.finish()));
  }
  SECTION("a manual scope") {
    check_story("a manual scope with unpolled work",
                error_of(ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
                  LEND_TRYV(scope.post_receive(memory.scatter(0, 8)));
                  return ends.b.send(memory.gather(8, 8));
                })));
  }
  SECTION("a closure's own error with a failed drain") {
    check_story("a closure's own error with a failed drain",
                error_of(ends.a.scope([&](PollingScope& scope) -> Result<void> {
                  LEND_TRYV(scope.post_receive(memory.scatter(16, 8)));
                  LEND_TRYV(scope.post_write({memory.gather(8, 8), nobody(8)}));
                  return Error{Errc::not_found, "the closure's own reason"};
                })));
  }
  SECTION("a manual scope with a failed drain") {
    check_story("a manual scope with a failed drain",
                error_of(ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
                  LEND_TRYV(scope.post_write({memory.gather(8, 8), nobody(8)}));
                  return success();
                })));
  }
}
