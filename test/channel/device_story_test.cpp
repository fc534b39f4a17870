// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the stories that need no planned fault are told on every device. Method: as story_test.cpp,
// on the test device, but for what a device chooses for itself: the vendor code; the state, of
// which SoftiWARP of kernel 6.1 knows nothing; of some failures the status, one of several.
#include <algorithm>
#include <initializer_list>
#include <regex>
#include <string>
#include <utility>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t depth = 8;

std::string const broken =
    " The channel takes no more work: finish its scopes, then prepare_again() or destroy it.";
// Queue pairs by rdma_cm know no number and no address of their peer.
std::string const place = "queue pair N toward the peer";

/// The paragraph, with words for the numbers and addresses that no test can know.
std::string story_of(Error const& error) {
  auto text = error.describe();
  for (auto const& [pattern, word] :
       {std::pair{R"((, in state [a-z_]+,)? toward queue pair \d+( at [0-9a-f:.]*[0-9a-f])?)",
                  " toward the peer"},
        {R"(queue pair \d+)", "queue pair N"},
        {R"([^ (]*_test\.cpp:\d+)", "HERE"},
        {R"(vendor code 0x[0-9a-f]+)", "vendor code V"}})
    text = std::regex_replace(text, std::regex{pattern}, word);
  return text;
}

/// What is to be said of work that failed of itself, with one of `allowed`.
std::string failed(Error const& error, std::string const& work, std::string const& slot,
                   std::initializer_list<WorkStatus> allowed) {
  REQUIRE(error.work() != nullptr);
  WorkFailure const& failure = *error.work();
  CHECK(std::find(allowed.begin(), allowed.end(), failure.status) != allowed.end());
  return "work_failed: a " + work + ", posted at HERE, failed with " +
         std::string{name_of(failure.status)} + " (status " +
         std::to_string(static_cast<unsigned>(failure.status)) + ", vendor code V, class " +
         std::string{name_of(class_of(failure.status))} + "). It was in slot " + slot +
         " of queue pair N toward the peer. It broke the channel; nothing else was flushed "
         "along. " +
         std::string{remedy_for(failure.status, failure.operation)} + broken;
}

struct Story {
  static ChannelOptions options() {
    auto options = options_with_depth(depth);
    options.queue_pair.ack_timeout = 50ms;
    options.queue_pair.ack_retries = 1;
    options.queue_pair.receiver_not_ready_retries = 1;
    return options;
  }

  TwoEnds ends = two_ends(options());
  MemoryRegion memory = must(ends.domain.allocate(4096));
};

}  // namespace

TEST_CASE("a refused write, and a call after it, tell their stories on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  auto const error = error_of(ends.a.write({memory.gather(0, 8), nobody(8)}));
  auto const told = failed(error, "write of 8 bytes", "0", {WorkStatus::remote_access});
  CHECK(story_of(error) == told);
  CHECK(story_of(error_of(ends.a.send(memory.gather(0, 8)))) ==
        "channel_broken: the channel was broken before this call, which did nothing. It is about "
        "the send of 8 bytes, to be posted at HERE, in " +
            place + ". First cause: " + told);
}

TEST_CASE("a message longer than its receive is told on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.b};
  auto receive = must(scope.post_receive(memory.scatter(64, 4)));
  auto const sent = ends.a.send(memory.gather(0, 8), within(10s));
  // Which it is on SoftRoCE depends on the kernel: test/guest/README.md.
  auto const error = error_of(receive.wait(within(10s)));
  CHECK(story_of(error) == failed(error, "receive of 4 bytes", "0",
                                  {WorkStatus::local_length, WorkStatus::local_queue_pair_operation,
                                   WorkStatus::remote_invalid_request}));
  if (!ends.context.capabilities().acknowledges) return;  // the sender is told nothing
  auto const of_sender = error_of(sent);
  CHECK(story_of(of_sender) ==
        failed(of_sender, "send of 8 bytes", "0",
               {WorkStatus::remote_invalid_request, WorkStatus::remote_operation}));
}

TEST_CASE("a peer without a receive tells its story on any device that waits", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto const error = error_of(ends.a.send(memory.gather(0, 1)));
  CHECK(story_of(error) ==
        failed(error, "send of 1 byte", "0", {WorkStatus::receiver_not_ready_exceeded}));
}

TEST_CASE("a peer that is gone tells its story on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  if (!ends.context.capabilities().endpoints) {  // rdma_cm tells
    PollingScope scope{ends.a};
    auto receive = must(scope.post_receive(memory.scatter(0, 8)));
    { auto const gone = std::move(ends.b); }
    auto const lost = error_of(receive.wait(within(10s)));
    CHECK(
        std::regex_replace(story_of(lost), std::regex{R"(peer at \S+)"}, "peer at THERE") ==
        "peer_lost: the peer at THERE disconnected. It is about the receive of 8 bytes, posted at "
        "HERE, in slot 0 of queue pair N toward the peer. 1 request was flushed with it. The "
        "connection is over: prepare_again() or build anew, and connect once the peer is back.");
    return;
  }
  { auto const gone = std::move(ends.b); }
  auto const error = error_of(ends.a.send(memory.gather(0, 1)));
  CHECK(story_of(error) == failed(error, "send of 1 byte", "0", {WorkStatus::retry_exceeded}));
}

TEST_CASE("a deadline tells its story on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  SECTION("of a blocking call") {
    auto const told =
        "timed_out: the work was not over before the deadline; it was flushed to get its bytes "
        "back, which broke the channel. It is about the receive of 64 bytes, posted at HERE, in "
        "slot 0 of queue pair N toward the peer. 1 request was flushed "
        "with it." +
        broken;
    CHECK(story_of(error_of(ends.a.receive(memory.scatter(0, 64), within(1ms)))) == told);
    CHECK(story_of(*ends.a.first_cause()) == told);
  }
  SECTION("of a wait, and of a drain") {
    PollingScope scope{ends.a};
    scope.drain_within(1ms);
    auto receive = must(scope.post_receive(memory.scatter(0, 4)));
    CHECK(story_of(error_of(receive.wait(within(0s)))) ==
          "timed_out: the work was not over before the deadline; it is still outstanding. It is "
          "about the receive of 4 bytes, posted at HERE, in slot 0 of " +
              place + ". The channel works on: wait again, or finish the scope.");
    CHECK(story_of(error_of(scope.finish())) ==
          "timed_out: the scope's work was not over before the deadline and was flushed. It is "
          "about " +
              place + ". 1 request was flushed with it." + broken);
  }
  SECTION("of a wait for room") {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    for (std::size_t i = 0; i < depth; ++i)
      static_cast<void>(must(scope.post_receive(memory.scatter(8 * i, 8))));
    auto const it = " It is about the receive of 4 bytes, to be posted at HERE, in " + place + ". ";
    CHECK(
        story_of(error_of(scope.try_post_receive(memory.scatter(1024, 4)))) ==
        "queue_full: as many work requests are outstanding as the depth allows; poll, then post." +
            it + "Nothing was posted and the channel works on.");
    CHECK(
        story_of(error_of(scope.post_receive(memory.scatter(1024, 4), within(1ms)))) ==
        "timed_out: there was no room to post a receive before the deadline; nothing was posted." +
            it + "The channel works on: post again once some of its work is over.");
  }
}

TEST_CASE("what was cancelled, and what a channel leaves that is gone, is told on any device",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.a};
  auto receive = must(scope.post_receive(memory.scatter(0, 4)));
  Cancellation stopping;
  stopping.cancel();
  CHECK(story_of(error_of(receive.wait(Deadline::never().unless(stopping)))) ==
        "cancelled: the work was not over before it was cancelled; it is still outstanding. It is "
        "about the receive of 4 bytes, posted at HERE, in slot 0 of " +
            place + ". The channel works on: wait again, or finish the scope.");
  { auto const gone = std::move(ends.a); }
  CHECK(story_of(error_of(receive.wait())) ==
        "stale_handle: the channel of this work is gone. Nothing was done.");
  CHECK(story_of(error_of(scope.finish())) ==
        "stale_handle: the scope has ended, or its channel is gone. Of the scope's own work 1 "
        "request was flushed: the channel was destroyed with work outstanding. Nothing was done.");
}

TEST_CASE("a manual scope that was left half asked is told on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope receiving{ends.b};
  static_cast<void>(must(receiving.post_receive(memory.scatter(8, 8))));
  CHECK(story_of(error_of(ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
          LEND_TRYV(scope.post_send(memory.gather(0, 8)));
          return success();
        }))) ==
        "unpolled_work: 1 posted operations were never polled to their end. All of it is over and "
        "its bytes are back.");
  must(receiving.finish());
}

TEST_CASE("what is refused before it is posted tells its story on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.b};
  scope.drain_within(0s);
  static_cast<void>(must(scope.post_receive(memory.scatter(64, 4))));
  auto const it = [](std::string const& bytes) {
    return " It is about the receive of " + bytes + " bytes, to be posted at HERE, in " + place +
           ". ";
  };
  CHECK(story_of(error_of(scope.post_receive(memory.scatter(64, 8)))) ==
        "already_borrowed: bytes [64, 72) for a receive at HERE overlap bytes [64, 68) lent to a "
        "receive at HERE; wait for that work first." +
            it("8") + "Nothing was posted and the channel works on.");
  CHECK(story_of(error_of(scope.post_receive(memory.scatter(64, 5000)))) ==
        "invalid_argument: receive refused: 5000 bytes at offset 64 of a region of 4096 bytes are "
        "out of bounds; keep offset + length within it; nothing was posted." +
            it("5000") + "The channel works on: correct the request and post it.");
}
