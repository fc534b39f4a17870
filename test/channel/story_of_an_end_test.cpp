// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whoever ended it tells the story: somebody who cancels, a peer that is lost, a network that
// loses, a peer that does not fit, a call that the device refuses. Method: as story_test.cpp.
#include <array>
#include <cerrno>
#include <cstdlib>

#include "channel/story.hpp"
#include "support/few_descriptors.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("who cancels is told from a deadline", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  Cancellation stopping;
  stopping.cancel();
  auto const stopped = Deadline::never().unless(stopping);
  SECTION("of a blocking call") {
    check_story("a blocking receive cancelled",
                error_of(ends.a.receive(memory.scatter(0, 64), stopped)));
  }
  SECTION("of a wait, and of a drain") {
    PollingScope scope{ends.a};
    scope.drain_until(stopped);
    auto receive = must(scope.post_receive(memory.scatter(0, 4)));
    check_story("a wait cancelled", error_of(receive.wait(stopped)));
    check_story("a drain cancelled", error_of(scope.finish()));
  }
  SECTION("of a wait for room") {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    for (std::size_t i = 0; i < story_depth; ++i)
      static_cast<void>(must(scope.post_receive(memory.scatter(8 * i, 8))));
    check_story("a wait for room cancelled",
                error_of(scope.post_receive(memory.scatter(1024, 4), stopped)));
  }
}

TEST_CASE("a peer lost to a keep-alive tells which question was not answered", "[channel]") {
  auto options = options_with_depth(story_depth);
  options.keep_alive = 1ms;
  options.queue_pair.connection.ack_timeout = 1ms;
  options.queue_pair.connection.ack_retries = 1;
  auto ends = two_ends(options);
  auto memory = must(ends.domain.allocate(64));
  must(inject_faults(ends.context, FaultPlan{}.peer_dies(1)));
  PollingScope scope{ends.a};
  auto receive = must(scope.post_receive(memory.scatter(0, 8)));
  check_story("a peer lost to a keep-alive", error_of(receive.wait(within(30s))));
  check_story("a send after a peer was lost", error_of(ends.a.send(memory.gather(0, 8))));
}

TEST_CASE("a network that loses all and a peer that died are no different to a sender",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  std::string name;
  SECTION("more is lost than retries make up for") {
    name = "a network that loses all";
    must(inject_faults(ends.context, FaultPlan{}.drop(1, 2)));
  }
  SECTION("the peer's process dies") {
    name = "a peer's process that died";
    must(inject_faults(ends.context, FaultPlan{}.peer_dies(1)));
  }
  check_story(name, error_of(ends.a.send(memory.gather(0, 8))));
}

TEST_CASE("a handshake that cannot be tells what does not fit, or which step was refused",
          "[channel]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const domain = must(context.allocate_protection_domain());
  auto prepared = must(prepare_channel(domain, {}));
  auto peer = prepared.endpoint();
  SECTION("another kind of device") {
    peer.device_kind = DeviceKind::card;
    check_story("a handshake between kinds of devices",
                error_of(std::move(prepared).handshake(peer)));
  }
  SECTION("a step that the device refuses") {
    // The first call asks for the port's state.
    must(inject_faults(context, FaultPlan{}.control_call_fails(2, ETIMEDOUT)));
    check_story("a handshake that the device refuses",
                error_of(std::move(prepared).handshake(peer)));
  }
  SECTION("twice") {
    static_cast<void>(must(std::move(prepared).handshake(peer)));
    // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
    check_story("a handshake done twice", error_of(std::move(prepared).handshake(peer)));
  }
}

TEST_CASE("a control call that is refused tells which, why and what to do", "[channel]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const domain = must(context.allocate_protection_domain());
  std::array<std::byte, 64> bytes{};
  auto const refused_with = [&](int errno_value, std::uint64_t call = 1) {
    must(inject_faults(context, FaultPlan{}.control_call_fails(call, errno_value)));
  };
  SECTION("a protection domain, for want of permission") {
    refused_with(EPERM);
    check_story("a protection domain refused", error_of(context.allocate_protection_domain()));
  }
  SECTION("a registration") {
    refused_with(ENOMEM);
    check_story("a registration refused", error_of(domain.register_memory(bytes)));
  }
  SECTION("a completion queue") {
    refused_with(ENOMEM, 2);
    check_story("a completion queue refused", error_of(prepare_channel(domain, {})));
  }
  SECTION("a queue pair") {
    refused_with(EINVAL, 5);
    check_story("a queue pair refused", error_of(prepare_channel(domain, {})));
  }
}

TEST_CASE("an exchange that fails tells with whom, what it left and what to do", "[channel]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const domain = must(context.allocate_protection_domain());
  auto const prepared = [&] { return must(prepare_channel(domain, {})); };
  auto listener = must(Listener::open("127.0.0.1:0"));
  SECTION("nobody comes") {
    check_story("an accept without a peer", error_of(listener.accept(prepared(), within(1ms))));
  }
  SECTION("nobody listens") {
    auto const address = listener.address();
    { auto const gone = std::move(listener); }
    check_story("a connect without a listener",
                error_of(connect(address, prepared(), within(200ms))));
  }
  SECTION("who listens says nothing") {  // it accepts nobody: the system does
    check_story("a connect to a listener that says nothing",
                error_of(connect(listener.address(), prepared(), within(1ms))));
  }
}

TEST_CASE("in a forked child waits, polls and the scope's end tell of the fork", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.a};
  auto work = must(scope.post_receive(memory.scatter(0, 64)));
  PeerProcess child{[&](Wire const&) {
    auto const tells = [](Error const& error) {
      return error == Errc::system_failed && error.os_error() == ENODEV &&
             error.message().find("opened before fork(): open it again") != std::string::npos;
    };
    if (!tells(error_of(work.wait(within(5s))))) return 1;
    if (!tells(error_of(work.poll()))) return 2;
    return tells(error_of(scope.finish())) ? 0 : 3;
  }};

  CHECK(child.exit_status() == 0);
  must(ends.b.send(memory.gather(64, 8), within(5s)));
  CHECK(must(work.wait(within(5s))).bytes == 8);
}

TEST_CASE("a completion queue that fails is not told with the reason of an earlier refusal",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  must(inject_faults(ends.context, FaultPlan{}.completion_queue_fails(1)));
  PollingScope scope{ends.a};
  auto work = must(scope.post_send(memory.gather(0, 8)));
  ::setenv("LEND_SOFT_DIRECTORY", "/proc/no/such/place", 1);
  auto const refused = error_of(open_device(DeviceChoice::soft()));
  ::unsetenv("LEND_SOFT_DIRECTORY");
  REQUIRE(refused.message().find("/proc/no/such/place") != std::string::npos);

  auto const error = error_of(work.wait(within(5s)));

  CHECK(error.message().find("ibv_poll_cq returned -5") != std::string::npos);
}

TEST_CASE("who connects without descriptors to do so is told which limit that is", "[channel]") {
  Story story;
  PreparedChannel one = must(prepare_channel(story.ends.domain, {}));
  PreparedChannel const other = must(prepare_channel(story.ends.domain, {}));
  std::string limit;

  auto const error = [&] {
    FewDescriptors const none;
    limit = FewDescriptors::words();
    return error_of(std::move(one).handshake(other.endpoint()));
  }();

  CHECK(error == Errc::exhausted);
  CHECK(error.os_error() == EMFILE);
  CHECK_THAT(error.message(), Catch::Contains(limit) && Catch::Contains("ulimit -n"));
}
