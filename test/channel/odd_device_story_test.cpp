// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a port that is down, a device that refuses a request and statuses that only other devices
// have tell their stories. Method: the fake provider, as in odd_device_test.cpp.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/channel/unsafe.hpp>
#include <lend/lend.hpp>

#include <optional>
#include <regex>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct End {
  MemoryRegion memory;
  Channel channel;
};

End fake_end() {
  Fake::get().reset({});
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto prepared = channel_builder().protection_domain(domain).build().value();
  auto const itself = prepared.endpoint();
  return {domain.allocate(64).value(), std::move(prepared).handshake(itself).value()};
}

std::string story_of(Error const& error) {
  auto const text =
      std::regex_replace(error.describe(), std::regex{R"(queue pair \d+)"}, "queue pair N");
  return std::regex_replace(text, std::regex{R"([^ (]*_test\.cpp:\d+)"}, "HERE");
}

}  // namespace

TEST_CASE("work that failed because this side's port is down says so", "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  auto send = scope.post_send(end.memory.gather(0, 8)).value();
  Fake::get().device.ports.front() = IBV_PORT_DOWN;
  ibv_wc entry{};
  entry.wr_id = Fake::get().posted.front().request.wr_id;
  entry.status = IBV_WC_RETRY_EXC_ERR;
  Fake::get().posted.clear();
  Fake::get().completions.push_back(entry);

  CHECK(story_of(send.wait().error()) ==
        "work_failed: a send of 8 bytes, posted at HERE, failed with retry_exceeded (status 12, "
        "vendor code 0x0, class transport). It was in slot 0 of queue pair N, in state "
        "ready_to_send, toward queue pair N at 10.0.0.1. It broke the channel; nothing else was "
        "flushed along. "
        "This side's port is down: bring its network interface or link up, then "
        "prepare_again(). The channel takes no more work: finish its scopes, then prepare_again() "
        "or destroy it.");
}

TEST_CASE("a request that the device cannot understand, and one that the peer gave up, say so",
          "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  auto send = scope.post_send(end.memory.gather(0, 8)).value();
  ibv_wc entry{};
  entry.wr_id = Fake::get().posted.front().request.wr_id;
  entry.vendor_err = 0x77;
  std::string failed;
  std::string what_to_do;
  SECTION("LOC_QP_OP_ERR") {
    entry.status = IBV_WC_LOC_QP_OP_ERR;
    failed = "local_queue_pair_operation (status 2, vendor code 0x77, class local_programming)";
    what_to_do =
        "The device could not understand this request: check that the queue pair was made for this "
        "operation and this many pieces.";
  }
  SECTION("REM_ABORT_ERR") {
    entry.status = IBV_WC_REM_ABORT_ERR;
    failed = "remote_aborted (status 16, vendor code 0x77, class remote)";
    what_to_do = "The peer gave the operation up: look at the failure on its side.";
  }
  Fake::get().posted.clear();
  Fake::get().completions.push_back(entry);

  CHECK(story_of(send.wait().error()) ==
        "work_failed: a send of 8 bytes, posted at HERE, failed with " + failed +
            ". It was in slot 0 of queue pair N, in state ready_to_send, toward queue pair N at "
            "10.0.0.1. It broke the channel; nothing else was flushed along. " +
            what_to_do +
            " The channel takes no more work: finish its scopes, then prepare_again() or destroy "
            "it.");
}

TEST_CASE("a drain that a port which is down cut short says so", "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  scope.drain_within(500ms);  // long enough to sleep: then the port is asked
  static_cast<void>(scope.post_receive(end.memory.scatter(0, 8)).value());
  Fake::get().device.ports.front() = IBV_PORT_DOWN;

  CHECK(story_of(scope.finish().error()) ==
        "timed_out: the scope's work was not over before the deadline and was flushed, for this "
        "side's port is down: bring its network interface or link up. It is about queue pair N "
        "toward queue pair N at 10.0.0.1. 1 request was flushed with it. The channel takes no more "
        "work: finish its scopes, then prepare_again() or destroy it.");
}

TEST_CASE("a post that the device refuses tells its errno, and leaves nothing on loan",
          "[channel]") {
  auto end = fake_end();
  Fake::get().post_result = EINVAL;
  std::string const refused =
      "system_failed: ibv_post_send failed: Invalid argument (errno 22). The queue pair may have "
      "left the state in which it takes work: try again, or finish the channel's scopes and "
      "prepare_again(). It is about the send of 8 bytes, to be posted at HERE, in queue pair N, in "
      "state ready_to_send, toward queue pair N at 10.0.0.1. Nothing was posted and the channel "
      "works as far as it did.";

  CHECK(story_of(end.channel.send(end.memory.gather(0, 8)).error()) == refused);
  PollingScope scope{end.channel};
  CHECK(story_of(scope.try_post_send(end.memory.gather(0, 8)).error()) == refused);
  auto batch = scope.batch();
  auto work = batch.add_send(end.memory.gather(0, 8)).value();
  static_cast<void>(batch.post());
  CHECK(story_of(work.wait().error()) == refused);
  CHECK(end.memory.loans() == 0);
  Fake::get().post_result = 0;
}

TEST_CASE("single work that a failing device may have taken is flushed before its bytes are back",
          "[channel]") {
  auto end = fake_end();
  Fake::get().post_result = ENOMEM;  // no full queue, for the device names no request
  Fake::get().silent_after = 0;
  Fake::get().refuses_once = true;
  std::optional<std::size_t> lent;
  Fake::get().at_error = [&] {
    if (lent) return;
    lent = end.memory.loans();
    ibv_wc entry{};
    entry.wr_id = Fake::get().posted.front().request.wr_id;
    entry.status = IBV_WC_WR_FLUSH_ERR;
    Fake::get().completions.push_back(entry);
  };
  std::string const story =
      "system_failed: ibv_post_send failed: Cannot allocate memory (errno 12). The device does not "
      "say whether it took the work, and may touch its bytes until the queue pair was flushed. It "
      "is about the send of 8 bytes, posted at HERE, in slot 0 of queue pair N, in state error, "
      "toward queue pair N at 10.0.0.1. The channel takes no more work: finish its scopes, then "
      "prepare_again() or destroy it.";
  auto const element = end.memory.gather(0, 8);
  PollingScope scope{end.channel};
  SECTION("of a scope") {
    CHECK(story_of(scope.post_send(element).error()) == story);
  }
  SECTION("of a scope, without waiting for room") {
    CHECK(story_of(scope.try_post_send(element).error()) == story);
  }
  SECTION("that blocks") {
    CHECK(story_of(end.channel.send(element).error()) == story);
  }
  SECTION("without loans") {
    CHECK(unsafe_post_send(end.channel, element).error() == Errc::system_failed);
    lent = lent.value() + 1;
  }
  CHECK(lent == 1);
  CHECK(Fake::get().post_calls == 1);
  CHECK(end.memory.loans() == 0);
  CHECK(*end.channel.first_cause() == Errc::system_failed);
  CHECK(end.channel.last_failures().empty());  // the post itself has told
  CHECK(scope.post_send(element).error() == Errc::channel_broken);
  CHECK(scope.finish().has_value());
}

TEST_CASE("work that a failing device may have taken and does not give back is on loan for good",
          "[channel]") {
  auto end = fake_end();
  auto& fake = Fake::get();
  fake.post_result = EIO;
  fake.silent_after = 0;
  fake.fail_errno = EIO;
  fake.fail_call = fake.calls + 1;                // the transition to the error state
  fake.fail_destruction = fake.destructions + 1;  // the queue pair's
  PollingScope scope{end.channel};

  auto const error = scope.post_send(end.memory.gather(0, 8)).error();

  CHECK(error == Errc::system_failed);
  CHECK_THAT(error.message(), Catch::Contains("ibv_destroy_qp failed") &&
                                  Catch::Contains("its bytes stay on loan for good"));
  REQUIRE(error.cause() != nullptr);
  CHECK_THAT(error.cause()->message(), Catch::Contains("does not say whether it took the work"));
  CHECK(end.memory.loans() == 1);
  CHECK(scope.finish().has_value());
}
