// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a port that is down, a device that refuses a request and statuses that only other devices
// have tell their stories. Method: the fake provider, as in odd_device_test.cpp.
#include "channel/fake_end.hpp"
#include "support/catch.hpp"
#include "support/stories.hpp"

#include <lend/channel/unsafe.hpp>
#include <lend/lend.hpp>

#include <optional>
#include <string>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("work that failed because this side's port is down says so", "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  auto send = scope.post_send(end.memory.gather(0, 8)).value();
  Fake::get().device.ports.front() = IBV_PORT_DOWN;
  complete(Fake::get().posted.front(), IBV_WC_RETRY_EXC_ERR);
  Fake::get().posted.clear();

  check_story("a port that is down", send.wait().error());
}

TEST_CASE("a request that the device cannot understand, and one that the peer gave up, say so",
          "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  auto send = scope.post_send(end.memory.gather(0, 8)).value();
  auto entry = completion_of(Fake::get().posted.front());
  entry.vendor_err = 0x77;
  std::string name;
  SECTION("LOC_QP_OP_ERR") {
    entry.status = IBV_WC_LOC_QP_OP_ERR;
    name = "a request that the device cannot understand";
  }
  SECTION("REM_ABORT_ERR") {
    entry.status = IBV_WC_REM_ABORT_ERR;
    name = "a request that the peer gave up";
  }
  Fake::get().posted.clear();
  Fake::get().completions.push_back(entry);

  check_story(name, send.wait().error());
}

TEST_CASE("a drain that a port which is down cut short says so", "[channel]") {
  auto end = fake_end();
  PollingScope scope{end.channel};
  scope.drain_within(500ms);  // long enough to sleep: then the port is asked
  static_cast<void>(scope.post_receive(end.memory.scatter(0, 8)).value());
  Fake::get().device.ports.front() = IBV_PORT_DOWN;

  check_story("a drain cut short by a port that is down", scope.finish().error());
}

TEST_CASE("a post that the device refuses tells its errno, and leaves nothing on loan",
          "[channel]") {
  auto end = fake_end();
  Fake::get().post_result = EINVAL;
  check_story("a post that the device refuses", end.channel.send(end.memory.gather(0, 8)).error());
  PollingScope scope{end.channel};
  check_story("a post that the device refuses",
              scope.try_post_send(end.memory.gather(0, 8)).error());
  auto batch = scope.batch();
  auto work = batch.add_send(end.memory.gather(0, 8)).value();
  static_cast<void>(batch.post());
  check_story("a post that the device refuses", work.wait().error());
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
    complete(Fake::get().posted.front(), IBV_WC_WR_FLUSH_ERR);
  };
  auto const element = end.memory.gather(0, 8);
  PollingScope scope{end.channel};
  SECTION("of a scope") {
    check_story("a post that the device may have taken", scope.post_send(element).error());
  }
  SECTION("of a scope, without waiting for room") {
    check_story("a post that the device may have taken", scope.try_post_send(element).error());
  }
  SECTION("that blocks") {
    check_story("a post that the device may have taken", end.channel.send(element).error());
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
  fake.fail_after(0, EIO);                        // the transition to the error state
  fake.fail_destruction = fake.destructions + 1;  // the queue pair's
  PollingScope scope{end.channel};

  auto const error = scope.post_send(end.memory.gather(0, 8)).error();

  CHECK(error == Errc::system_failed);
  CHECK_THAT(error.message(), Catch::Contains("ibv_destroy_qp failed") &&
                                  Catch::Contains("they stay on loan for good"));
  REQUIRE(error.cause() != nullptr);
  CHECK_THAT(error.cause()->message(), Catch::Contains("does not say whether it took the work"));
  CHECK(end.memory.loans() == 1);
  CHECK(scope.finish().has_value());
}
