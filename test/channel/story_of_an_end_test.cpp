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
    CHECK(story_of(error_of(ends.a.receive(memory.scatter(0, 64), stopped))) ==
          "cancelled: the work was not over before it was cancelled; it was flushed to get its "
          "bytes back, which broke the channel. It is about the receive of 64 bytes, posted at "
          "HERE, in slot 0 of queue pair N, in state ready_to_send, toward queue pair N at "
          "ADDRESS. 1 request was flushed with it. The channel takes no more work: finish its "
          "scopes, then prepare_again() or destroy it.");
  }
  SECTION("of a wait, and of a drain") {
    PollingScope scope{ends.a};
    scope.drain_until(stopped);
    auto receive = must(scope.post_receive(memory.scatter(0, 4)));
    CHECK(story_of(error_of(receive.wait(stopped))) ==
          "cancelled: the work was not over before it was cancelled; it is still outstanding. It "
          "is about the receive of 4 bytes, posted at HERE, in slot 0 of queue pair N toward queue "
          "pair N at ADDRESS. The channel works on: wait again, or finish the scope.");
    CHECK(story_of(error_of(scope.finish())) ==
          "cancelled: the scope's work was not over before it was cancelled and was flushed. It is "
          "about queue pair N toward queue pair N at ADDRESS. 1 request was flushed with it. The "
          "channel takes no more work: finish its scopes, then prepare_again() or destroy it.");
  }
  SECTION("of a wait for room") {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    for (std::size_t i = 0; i < story_depth; ++i)
      static_cast<void>(must(scope.post_receive(memory.scatter(8 * i, 8))));
    CHECK(
        story_of(error_of(scope.post_receive(memory.scatter(1024, 4), stopped))) ==
        "cancelled: there was no room to post a receive before it was cancelled; nothing was "
        "posted. It is about the receive of 4 bytes, to be posted at HERE, in queue pair N toward "
        "queue pair N at ADDRESS. The channel works on: post again once some of its work is "
        "over.");
  }
}

TEST_CASE("a peer lost to a keep-alive tells which question was not answered", "[channel]") {
  auto options = options_with_depth(story_depth);
  options.keep_alive = 1ms;
  options.queue_pair.ack_timeout = 1ms;
  options.queue_pair.ack_retries = 1;
  auto ends = two_ends(options);
  auto memory = must(ends.domain.allocate(64));
  must(inject_faults(ends.context, FaultPlan{}.peer_dies(1)));
  PollingScope scope{ends.a};
  auto receive = must(scope.post_receive(memory.scatter(0, 8)));
  CHECK(story_of(error_of(receive.wait(within(30s)))) ==
        "peer_lost: the peer did not answer the channel's keep-alive: write of 0 bytes failed "
        "with retry_exceeded (status 12, vendor code 0x4, class transport) in queue pair N (state "
        "error), peer queue pair N. The peer did not answer: check that its process lives, that "
        "both ends have finished the handshake with each other's present endpoint, and the "
        "network between them. It is about the receive of 8 bytes, posted at HERE, in slot 0 of "
        "queue pair N, in state error, toward queue pair N at ADDRESS. 1 request was flushed with "
        "it. First cause: work_failed: a write of 0 bytes failed with retry_exceeded (status 12, "
        "vendor code 0x4, class transport). It was in queue pair N, in state error, toward queue "
        "pair N at ADDRESS. It broke the channel; 1 other request was flushed along. The peer did "
        "not answer: check that its process lives, that both ends have finished the handshake "
        "with each other's present endpoint, and the network between them. The channel takes no "
        "more work: finish its scopes, then prepare_again() or destroy it.");
  CHECK(
      story_of(error_of(ends.a.send(memory.gather(0, 8)))) ==
      "channel_broken: the channel was broken before this call, which did nothing. It is about "
      "the send of 8 bytes, to be posted at HERE, in queue pair N toward queue pair N at "
      "ADDRESS. First cause: peer_lost: the peer did not answer the channel's keep-alive: write "
      "of 0 bytes failed "
      "with retry_exceeded (status 12, vendor code 0x4, class transport) in queue pair N (state "
      "error), peer queue pair N. The peer did not answer: check that its process lives, that "
      "both ends have finished the handshake with each other's present endpoint, and the "
      "network between them. 1 request was flushed with it. First cause: work_failed: a write "
      "of 0 bytes failed with retry_exceeded (status 12, vendor code 0x4, class transport). It "
      "was in queue pair N, in state error, toward queue pair N at ADDRESS. It broke the "
      "channel; 1 other request was flushed along. The peer did not answer: check that its process "
      "lives, that both ends have finished the handshake with each other's present endpoint, "
      "and the network between them. The channel takes no more work: finish its scopes, then "
      "prepare_again() or destroy it.");
}

TEST_CASE("a network that loses all and a peer that died are no different to a sender",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  std::string vendor_code;  // the device's own, which does tell them apart
  SECTION("more is lost than retries make up for") {
    vendor_code = "0xe";
    must(inject_faults(ends.context, FaultPlan{}.drop(1, 2)));
  }
  SECTION("the peer's process dies") {
    vendor_code = "0x4";
    must(inject_faults(ends.context, FaultPlan{}.peer_dies(1)));
  }
  CHECK(story_of(error_of(ends.a.send(memory.gather(0, 8)))) ==
        "work_failed: a send of 8 bytes, posted at HERE, failed with retry_exceeded (status 12, "
        "vendor code " +
            vendor_code +
            ", class transport). It was in slot 0 of queue pair N, in state error, toward queue "
            "pair N at ADDRESS. It broke the channel; nothing else was flushed along. The peer "
            "did not answer: check that its process lives, that both ends have finished the "
            "handshake with each other's present endpoint, and the network between them. The "
            "channel takes no more work: finish its scopes, then prepare_again() or destroy it.");
}

TEST_CASE("a handshake that cannot be tells what does not fit, or which step was refused",
          "[channel]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const domain = must(context.allocate_protection_domain());
  auto prepared = must(prepare_channel(domain, {}));
  auto peer = prepared.endpoint();
  SECTION("another kind of device") {
    peer.device_kind = DeviceKind::hardware;
    CHECK(story_of(error_of(std::move(prepared).handshake(peer))) ==
          "incompatible_peer: device kinds differ: ours soft, the peer's hardware; open the same "
          "kind on both sides (LEND_DEVICE=soft or LEND_DEVICE=hardware).");
  }
  SECTION("a step that the device refuses") {
    // The first two calls ask for the port's state and go to INIT.
    must(inject_faults(context, FaultPlan{}.control_call_fails(3, ETIMEDOUT)));
    CHECK(story_of(error_of(std::move(prepared).handshake(peer))) ==
          "system_failed: ibv_modify_qp of queue pair N from INIT to RTR toward queue pair N at "
          "ADDRESS, from GID index 0: ADDRESS (InfiniBand) failed: Connection timed out (errno "
          "110). a fault was planned for this call: end the plan or try again.");
  }
  SECTION("twice") {
    static_cast<void>(must(std::move(prepared).handshake(peer)));
    // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
    CHECK(story_of(error_of(std::move(prepared).handshake(peer))) ==
          "stale_handle: this prepared channel was used up; build another. Nothing was done.");
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
    CHECK(story_of(error_of(context.allocate_protection_domain())) ==
          "denied: ibv_alloc_pd on soft0 failed: Operation not permitted (errno 1). a fault was "
          "planned for this call: end the plan or try again. Nothing was done.");
  }
  SECTION("a registration") {
    refused_with(ENOMEM);
    CHECK(story_of(error_of(domain.register_memory(bytes))) ==
          "exhausted: ibv_reg_mr of 64 bytes failed: Cannot allocate memory (errno 12). a fault "
          "was planned for this call: end the plan or try again. Nothing was done.");
  }
  SECTION("a completion queue") {
    refused_with(ENOMEM, 2);
    CHECK(story_of(error_of(prepare_channel(domain, {}))) ==
          "exhausted: ibv_create_cq of 256 entries failed: Cannot allocate memory (errno 12). a "
          "fault was planned for this call: end the plan or try again. Nothing was done.");
  }
  SECTION("a queue pair") {
    refused_with(EINVAL, 5);
    CHECK(story_of(error_of(prepare_channel(domain, {}))) ==
          "invalid_argument: ibv_create_qp with send_depth 128, receive_depth 128, elements 4, "
          "inline_bytes 0 failed: Invalid argument (errno 22). a fault was planned for this call: "
          "end the plan or try again. Nothing was done.");
  }
}

TEST_CASE("an exchange that fails tells with whom, what it left and what to do", "[channel]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const domain = must(context.allocate_protection_domain());
  auto const prepared = [&] { return must(prepare_channel(domain, {})); };
  auto const told = [](Error const& error) {
    return std::regex_replace(story_of(error), std::regex{"127.0.0.1:[0-9]+"}, "THERE");
  };
  auto listener = must(Listener::open("127.0.0.1:0"));
  SECTION("nobody comes") {
    CHECK(told(error_of(listener.accept(prepared(), within(1ms)))) ==
          "timed_out: no peer came to THERE before the deadline; start the connecting side or wait "
          "longer.");
  }
  SECTION("nobody listens") {
    auto const address = listener.address();
    { auto const gone = std::move(listener); }
    CHECK(told(error_of(connect(address, prepared(), within(200ms)))) ==
          "timed_out: nobody listened at THERE before the deadline (Connection refused); start "
          "the listening side or wait longer.");
  }
  SECTION("who listens says nothing") {  // it accepts nobody: the system does
    CHECK(told(error_of(connect(listener.address(), prepared(), within(1ms)))) ==
          "timed_out: the peer at THERE did not finish the exchange before the deadline; nothing "
          "is connected. See whether a lend program listens or connects there and is not stopped, "
          "then prepare again and retry.");
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

  CHECK(error.message().find("ibv_poll_cq answered -5") != std::string::npos);
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
