// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each fault tells its story in one paragraph: what, to which operation of which peer, in
// which state, first cause or flushed along, and what to do. Method: real faults on the soft
// device; whole paragraphs are compared, but for what differs from run to run.
#include <lend/channel/unsafe.hpp>

#include <cerrno>
#include <optional>

#include "channel/story.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// The end of what tells of a refused write.
std::string const refused =
    "The peer's memory refused the access: check the remote key (a region that the peer registered "
    "anew has a new one), that the range lies inside the exposed region, that the region allows "
    "this operation and still exists. The channel takes no more work: finish its scopes, then "
    "prepare_again() or destroy it.";

}  // namespace

TEST_CASE("a refused write tells what was refused, where it was posted and what to do",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  auto const error = error_of(ends.a.write({memory.gather(0, 8), nobody(8)}));
  CHECK(story_of(error) ==
        "work_failed: a write of 8 bytes, posted at HERE, failed with remote_access (status "
        "10, vendor code 0x8, class remote). It was in slot 0 of queue pair N, in state "
        "error, toward queue pair N at ADDRESS. It broke the channel; nothing else was "
        "flushed along. " +
            refused);
  CHECK(error.cause() == nullptr);
  auto const later = error_of(ends.a.send(memory.gather(0, 8)));
  CHECK(
      story_of(later) ==
      "channel_broken: the channel was broken before this call, which did nothing. It is about "
      "the send of 8 bytes, to be posted at HERE, in queue pair N toward queue pair N at ADDRESS. "
      "First cause: work_failed: a write of 8 bytes, posted at HERE, failed with remote_access "
      "(status 10, vendor code 0x8, class remote). It was in slot 0 of queue pair N, in "
      "state error, toward queue pair N at ADDRESS. It broke the channel; nothing else was "
      "flushed along. " +
          refused);
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
    CHECK(story_of(flushed) ==
          "work_failed: a receive of 64 bytes, posted at HERE, failed with flushed (status 5, "
          "vendor code 0x0, class flushed). It was in slot 0 of queue pair N, in state error, "
          "toward queue pair N at ADDRESS. It was only flushed along. First cause: work_failed: "
          "a write of 8 bytes, posted at HERE, failed with remote_access (status 10, vendor "
          "code 0x8, class remote). It was in slot 1 of queue pair N, in state error, toward "
          "queue pair N at ADDRESS. It broke the channel; 2 other requests were flushed along. " +
              refused);
    CHECK(cause.flushed_along() == 2);
    CHECK(story_of(cause) == story_of(*ends.a.first_cause()));
    CHECK(story_of(*flushed.cause()) == story_of(cause));
    CHECK(error_of(last.poll()).is_flush());
    must(scope.finish());
  }
  SECTION("by the end of the scope") {
    CHECK(story_of(error_of(scope.finish())) ==
          "work_failed: a write of 8 bytes, posted at HERE, failed with remote_access (status "
          "10, vendor code 0x8, class remote). It was in slot 1 of queue pair N, in state "
          "error, toward queue pair N at ADDRESS. It broke the channel; 1 other request was "
          "flushed along. " +
              refused);
  }
  SECTION("by the end of a scope whose failure another handle had") {
    CHECK(error_of(failing.wait(within(5s))) == Errc::work_failed);
    { auto const dropped = std::move(first); }
    CHECK(story_of(error_of(scope.finish())) ==
          "work_failed: a receive of 64 bytes, posted at HERE, failed with flushed (status 5, "
          "vendor code 0x0, class flushed). It was in slot 0 of queue pair N, in state error, "
          "toward queue pair N at ADDRESS. It was only flushed along. First cause: work_failed: "
          "a write of 8 bytes, posted at HERE, failed with remote_access (status 10, vendor "
          "code 0x8, class remote). It was in slot 1 of queue pair N, in state error, toward "
          "queue pair N at ADDRESS. It broke the channel; 1 other request was flushed along. " +
              refused);
  }
}

TEST_CASE("work posted unsafely tells its story without a line", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  { auto const dropped = must(unsafe_post_receive(ends.a, memory.scatter(0, 8))); }
  CHECK(story_of(
            error_of(must(unsafe_post_write(ends.a, {memory.gather(8, 8), nobody(8)})).wait())) ==
        "work_failed: a write of 8 bytes failed with remote_access (status 10, vendor code "
        "0x8, class remote). It was in slot 1 of queue pair N, in state error, toward queue "
        "pair N at ADDRESS. It broke the channel; 1 other request was flushed along. " +
            refused);
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
  CHECK(story_of(error_of(ends.a.send(memory.gather(0, 8)))) ==
        "work_failed: a send of 8 bytes, posted at HERE, failed with remote_invalid_request "
        "(status 9, vendor code 0x9, class remote). It was in slot 0 of queue pair N, in "
        "state error, toward queue pair N at ADDRESS. It broke the channel; nothing else was "
        "flushed along. The peer refused the message: it is most often longer than the "
        "receive posted for it, so compare the two lengths. The channel takes no more work: "
        "finish its scopes, then prepare_again() or destroy it.");
  CHECK(story_of(error_of(receive.wait(within(5s)))) ==
        "work_failed: a receive of 4 bytes, posted at HERE, failed with local_length (status "
        "1, vendor code 0x9, class local_programming). It was in slot 0 of queue pair N, in "
        "state error, toward queue pair N at ADDRESS. It broke the channel; nothing else was "
        "flushed along. The message was longer than the memory posted for it: post receives "
        "as long as the longest message the peer sends. The channel takes no more work: "
        "finish its scopes, then prepare_again() or destroy it.");
}

TEST_CASE("a peer without a receive and a peer that is gone are told apart", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  SECTION("no receive") {
    CHECK(story_of(error_of(ends.a.send(memory.gather(0, 1)))) ==
          "work_failed: a send of 1 byte, posted at HERE, failed with "
          "receiver_not_ready_exceeded (status 13, vendor code 0x6, class transport). It was in "
          "slot 0 of queue pair N, in state error, toward queue pair N at ADDRESS. It broke the "
          "channel; nothing else was flushed along. The peer had no receive posted in time: "
          "post receives before the peer sends, or allow more receiver-not-ready retries. The "
          "channel takes no more work: finish its scopes, then prepare_again() or destroy it.");
  }
  SECTION("gone") {
    { auto const gone = std::move(ends.b); }
    CHECK(story_of(error_of(ends.a.send(memory.gather(0, 1)))) ==
          "work_failed: a send of 1 byte, posted at HERE, failed with retry_exceeded (status "
          "12, vendor code 0x5, class transport). It was in slot 0 of queue pair N, in state "
          "error, toward queue pair N at ADDRESS. It broke the channel; nothing else was "
          "flushed along. The peer did not answer: check that its process lives, that both ends "
          "have finished the handshake with each other's present endpoint, and the network "
          "between them. The channel takes no more work: finish its scopes, then "
          "prepare_again() or destroy it.");
  }
}

TEST_CASE("memory that went away under unsafe work is told on both sides", "[channel]") {
  Story story{.ends = Story::two_ends(std::nullopt)};
  auto& [ends, memory] = story;
  auto gone = std::make_optional(must(ends.domain.allocate(2048)));
  SECTION("a receive's") {
    auto receive = must(unsafe_post_receive(ends.b, gone->scatter(0, 8)));
    gone.reset();
    CHECK(story_of(error_of(ends.a.send(memory.gather(0, 8), within(5s)))) ==
          "work_failed: a send of 8 bytes, posted at HERE, failed with remote_operation (status "
          "11, vendor code 0xa, class remote). It was in slot 0 of queue pair N, in state "
          "error, toward queue pair N at ADDRESS. It broke the channel; nothing else was "
          "flushed along. The peer could not take the message: the memory of its receive is "
          "invalid or gone, so look at the failure on its side. The channel takes no more work: "
          "finish its scopes, then prepare_again() or destroy it.");
    CHECK(story_of(error_of(receive.wait(within(5s)))) ==
          "work_failed: a receive of 8 bytes failed with local_protection (status 4, vendor "
          "code 0xa, class local_programming). It was in slot 0 of queue pair N, in state "
          "error, toward queue pair N at ADDRESS. It broke the channel; nothing else was "
          "flushed along. The local memory is not registered, is too short, belongs to another "
          "protection domain or may not be written: register it with the channel's domain and "
          "keep it until the work completes. The channel takes no more work: finish its scopes, "
          "then prepare_again() or destroy it.");
  }
  SECTION("a send's") {
    auto send = must(unsafe_post_send(ends.a, gone->gather(0, 2048)));
    gone.reset();
    PollingScope scope{ends.b};
    scope.drain_within(0s);
    static_cast<void>(must(scope.post_receive(memory.scatter(0, 2048))));
    CHECK(story_of(error_of(send.wait(within(5s)))) ==
          "work_failed: a send of 2048 bytes failed with local_protection (status 4, vendor "
          "code 0x1, class local_programming). It was in slot 0 of queue pair N, in state "
          "error, toward queue pair N at ADDRESS. It broke the channel; nothing else was "
          "flushed along. The local memory is not registered, is too short or belongs to "
          "another protection domain: register it with the channel's domain and keep it until "
          "the work completes. The channel takes no more work: finish its scopes, then "
          "prepare_again() or destroy it.");
  }
}

TEST_CASE("a queue pair that breaks without a failure says that it does not know why",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  must(inject_faults(ends.context, FaultPlan{}.flush(1)));
  CHECK(story_of(error_of(ends.a.send(memory.gather(0, 8), within(5s)))) ==
        "work_failed: a send of 8 bytes, posted at HERE, failed with flushed (status 5, "
        "vendor code 0x0, class flushed). It was in slot 0 of queue pair N, in state error, "
        "toward queue pair N at ADDRESS. No first cause was known when it was seen: either "
        "Channel::first_cause() has one by now, or no work of this side failed: the peer asked "
        "for what it must not, which its own error tells, or the queue pair was put in the error "
        "state. The channel takes no more work: finish its scopes, then "
        "prepare_again() or destroy it.");
}

TEST_CASE("a failed completion queue says what became of the work", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  must(inject_faults(ends.context, FaultPlan{}.completion_queue_fails(1)));
  PollingScope scope{ends.a};
  auto work = must(scope.post_send(memory.gather(0, 8)));
  CHECK(story_of(error_of(work.wait(within(5s)))) ==
        "system_failed: ibv_poll_cq answered -5 on a queue of 16 entries: it overran or the "
        "device failed; no work has ended by it. The bytes come back by a flush: at the end of "
        "the scope, or of a blocking call. It is about the send of 8 bytes, posted at HERE, in "
        "slot 0 of queue pair N, in state ready_to_send, toward queue pair N at ADDRESS.");
  CHECK(
      story_of(error_of(scope.finish())) ==
      "system_failed: ibv_poll_cq answered -5 on a queue of 16 entries: it overran or the "
      "device failed; no work has ended by it. The bytes come back by a flush: at the end of "
      "the scope, or of a blocking call. It is about queue pair N, in state ready_to_send, toward "
      "queue pair N at ADDRESS. 1 request was flushed with it. The channel takes no more work: "
      "finish its "
      "scopes, then prepare_again() or destroy it.");
}

TEST_CASE("a deadline tells which work it was and whether the channel is broken", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  SECTION("of a blocking call") {
    auto const error = error_of(ends.a.receive(memory.scatter(0, 64), within(1ms)));
    CHECK(story_of(error) ==
          "timed_out: the work was not over before the deadline; it was flushed to get its "
          "bytes back, which broke the channel. It is about the receive of 64 bytes, posted at "
          "HERE, in slot 0 of queue pair N, in state ready_to_send, toward queue pair N at "
          "ADDRESS. 1 request was flushed with it. The channel takes no more work: finish its "
          "scopes, then prepare_again() or destroy it.");
    CHECK(story_of(error) == story_of(*ends.a.first_cause()));
    CHECK(story_of(error_of(ends.a.send(memory.gather(0, 1)))) ==
          "channel_broken: the channel was broken before this call, which did nothing. It is about "
          "the send of 1 byte, to be posted at HERE, in queue pair N toward queue pair N at "
          "ADDRESS. First cause: timed_out: the work was not over before the deadline; it was "
          "flushed to get "
          "its bytes back, which broke the channel. It is about the receive of 64 bytes, posted "
          "at HERE, in slot 0 of queue pair N, in state ready_to_send, toward queue pair N at "
          "ADDRESS. 1 request was flushed with it. The channel takes no more work: finish its "
          "scopes, then prepare_again() or destroy it.");
  }
  SECTION("of a wait, and of a drain") {
    PollingScope scope{ends.a};
    scope.drain_within(1ms);
    auto receive = must(scope.post_receive(memory.scatter(0, 4)));
    CHECK(story_of(error_of(receive.wait(within(0s)))) ==
          "timed_out: the work was not over before the deadline; it is still outstanding. It is "
          "about the receive of 4 bytes, posted at HERE, in slot 0 of queue pair N toward queue "
          "pair N at ADDRESS. The channel works on: wait again, or finish the scope.");
    CHECK(story_of(error_of(scope.finish())) ==
          "timed_out: the scope's work was not over before the deadline and was flushed. It is "
          "about queue pair N toward queue pair N at ADDRESS. 1 request was flushed with it. "
          "The channel takes no more work: finish its scopes, then prepare_again() or destroy "
          "it.");
  }
  SECTION("of a wait that slept") {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    auto receive = must(scope.post_receive(memory.scatter(0, 4)));
    CHECK(story_of(error_of(receive.wait(within(1s)))) ==
          "timed_out: the work was not over before the deadline; it is still outstanding. It is "
          "about the receive of 4 bytes, posted at HERE, in slot 0 of queue pair N, in state "
          "ready_to_send, toward queue pair N at ADDRESS. The channel works on: wait again, or "
          "finish the scope.");
  }
  SECTION("of a wait for room") {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    for (std::size_t i = 0; i < story_depth; ++i)
      static_cast<void>(must(scope.post_receive(memory.scatter(8 * i, 8))));
    CHECK(story_of(error_of(scope.try_post_receive(memory.scatter(1024, 4)))) ==
          "queue_full: as many work requests are outstanding as the depth allows; poll, then "
          "post. It is about the receive of 4 bytes, to be posted at HERE, in queue pair N toward "
          "queue pair N at ADDRESS. Nothing was posted and the channel works on.");
    CHECK(
        story_of(error_of(scope.post_receive(memory.scatter(1024, 4), within(1ms)))) ==
        "timed_out: there was no room to post a receive before the deadline; nothing was "
        "posted. It is about the receive of 4 bytes, to be posted at HERE, in queue pair N toward "
        "queue pair N at ADDRESS. The channel works on: post again once some of its work is "
        "over.");
  }
}

TEST_CASE("what was refused before it was posted leaves a channel that works", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.b};
  scope.drain_within(0s);
  static_cast<void>(must(scope.post_receive(memory.scatter(64, 4))));
  CHECK(
      story_of(error_of(scope.post_receive(memory.scatter(64, 8)))) ==
      "already_borrowed: bytes [64, 72) for a receive at HERE overlap bytes [64, 68) lent "
      "to a receive at HERE; wait for that work first. It is about the receive of 8 bytes, to be "
      "posted at HERE, in queue pair N toward queue pair N at ADDRESS. Nothing was posted and the "
      "channel works on.");
  CHECK(story_of(error_of(memory.bytes(64, 8))) ==
        "already_borrowed: bytes [64, 72) cannot be read now: they overlap bytes [64, 68) "
        "lent to a receive at HERE; wait for that work first. Nothing was posted and the "
        "channel works on.");
  CHECK(
      story_of(error_of(scope.post_receive(memory.scatter(64, 5000)))) ==
      "invalid_argument: receive refused: 5000 bytes at offset 64 of a region of 4096 bytes are "
      "out of bounds; keep offset + length within it; nothing was posted. It is about the receive "
      "of 5000 bytes, to be posted at HERE, in queue pair N toward queue pair N at ADDRESS. The "
      "channel works on: correct the request and post it.");
  must(inject_faults(ends.context, FaultPlan{}.control_call_fails(1, ENOMEM)));
  CHECK(story_of(error_of(ends.domain.allocate(64))) ==
        "exhausted: allocating 64 bytes failed: Cannot allocate memory (errno 12). a fault "
        "was planned for this call: end the plan or try again. Nothing was done.");
}

TEST_CASE("a channel that is gone, or a scope left half asked, says what became of the work",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  SECTION("the channel is gone") {
    PollingScope scope{ends.b};
    auto held = must(scope.post_receive(memory.scatter(0, 4)));
    static_cast<void>(must(scope.post_receive(memory.scatter(64, 4))));
    { auto const gone = std::move(ends.b); }
    CHECK(story_of(error_of(held.wait())) ==
          "stale_handle: the channel of this work is gone. Nothing was done.");
    CHECK(story_of(error_of(scope.finish())) ==
          "stale_handle: the scope has ended, or its channel is gone. Of the scope's own work 2 "
          "requests were flushed: the channel was destroyed with work outstanding. Nothing was "
          "done.");
  }
  SECTION("a manual scope") {
    CHECK(story_of(error_of(ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
            LEND_TRYV(scope.post_receive(memory.scatter(0, 8)));
            return ends.b.send(memory.gather(8, 8));
          }))) ==
          "unpolled_work: 1 posted operations were never polled to their end. All of it is over "
          "and its bytes are back.");
  }
  SECTION("a closure's own error with a failed drain") {
    CHECK(story_of(error_of(ends.a.scope([&](PollingScope& scope) -> Result<void> {
            LEND_TRYV(scope.post_receive(memory.scatter(16, 8)));
            LEND_TRYV(scope.post_write({memory.gather(8, 8), nobody(8)}));
            return Error{Errc::not_found, "the closure's own reason"};
          }))) ==
          "not_found: the closure's own reason. The scope's drain also found: a write of 8 bytes, "
          "posted at HERE, failed with remote_access (status 10, vendor code 0x8, class remote). "
          "It was in slot 1 of queue pair N, in state error, toward queue pair N at ADDRESS. It "
          "broke the channel; 1 other request was flushed along. " +
              refused);
  }
  SECTION("a manual scope with a failed drain") {
    CHECK(story_of(error_of(ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
            LEND_TRYV(scope.post_write({memory.gather(8, 8), nobody(8)}));
            return success();
          }))) ==
          "unpolled_work: 1 posted operations were never polled to their end. The scope's drain "
          "also found: a write of 8 bytes, posted at HERE, failed with remote_access (status 10, "
          "vendor code 0x8, class remote). It was in slot 0 of queue pair N, in state error, "
          "toward queue pair N at ADDRESS. It broke the channel; nothing else was flushed along. " +
              refused);
  }
}
