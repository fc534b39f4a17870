// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: blocking calls move bytes, return every byte, and say why when they cannot.
// Method: two channels in one process; whatever must be there first is posted in a scope.
#include <type_traits>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<Channel>);
static_assert(!std::is_copy_constructible_v<PreparedChannel>);
static_assert(!std::is_copy_constructible_v<MemoryRegion>);
static_assert(std::is_nothrow_move_constructible_v<Channel>);

TEST_CASE("a message arrives whole and with its length", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(4096));
  put(memory, 0, "hello");

  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(64, 64)));
  must(ends.a.send(memory.gather(0, 5)));
  auto const done = must(arrival.wait(within(5s)));
  must(scope.finish());

  CHECK(done.operation == Operation::receive);
  CHECK(done.bytes == 5);
  CHECK_FALSE(done.immediate.has_value());
  CHECK(text_at(memory, 64, 5) == "hello");
  CHECK(memory.loans() == 0);
}

TEST_CASE("a blocking receive takes what was sent before it", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(ends.domain.allocate(4096));
  put(memory, 0, "early");

  PollingScope scope{ends.a};
  auto sent = must(scope.post_send(memory.gather(0, 5)));
  auto const done = must(ends.b.receive(memory.scatter(100, 10), within(5s)));
  must(sent.wait(within(5s)));
  must(scope.finish());

  CHECK(done.bytes == 5);
  CHECK(text_at(memory, 100, 5) == "early");
}

TEST_CASE("an immediate is refused with its reason where the device carries none", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  if (ends.context.capabilities().immediates) return skip(ends.context, "carries immediates");

  auto const error = error_of(ends.a.send(Send(memory.gather(0, 8)).with_immediate(1)));
  CHECK(error == Errc::unsupported);
  CHECK(memory.loans() == 0);
  CHECK(ends.a.first_cause() == nullptr);
}

TEST_CASE("an immediate value arrives as it was given", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::immediates)) return;
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};

  SECTION("with bytes") {
    auto arrival = must(scope.post_receive(memory.scatter(32, 8)));
    must(ends.a.send(Send(memory.gather(0, 8)).with_immediate(0x01020304)));
    CHECK(must(arrival.wait(within(5s))).immediate == 0x01020304u);
  }
  SECTION("without bytes, into a receive without bytes") {
    auto arrival = must(scope.post_receive(Receive::only_immediate()));
    must(ends.a.send(Send::only_immediate(7)));
    auto const done = must(arrival.wait(within(5s)));
    CHECK(done.immediate == 7u);
    CHECK(done.bytes == 0);
  }
  must(scope.finish());
}

TEST_CASE("an immediate that came with a message is not told again of a later send", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::immediates)) return;
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.a};
  auto arrival = must(scope.post_receive(memory.scatter(32, 8)));
  must(ends.b.send(Send(memory.gather(0, 8)).with_immediate(7)));
  CHECK(must(arrival.wait(within(5s))).immediate == 7u);

  PollingScope receiving{ends.b};
  auto other_arrival = must(receiving.post_receive(memory.scatter(40, 8)));
  auto sent = must(scope.post_send(memory.gather(0, 8)));  // in the slot of that receive
  CHECK(must(sent.wait(within(5s))).immediate == std::nullopt);
  must(other_arrival.wait(within(5s)));
}

TEST_CASE("a message is gathered from pieces and scattered into others", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(4096));
  put(memory, 0, "abc");
  put(memory, 10, "defg");

  PollingScope scope{ends.b};
  auto arrival = must(
      scope.post_receive({memory.scatter(100, 2), memory.scatter(200, 2), memory.scatter(300, 9)}));
  must(ends.a.send({memory.gather(0, 3), memory.gather(10, 4)}));
  CHECK(must(arrival.wait(within(5s))).bytes == 7);
  must(scope.finish());

  CHECK(text_at(memory, 100, 2) == "ab");
  CHECK(text_at(memory, 200, 2) == "cd");
  CHECK(text_at(memory, 300, 3) == "efg");
}

TEST_CASE("a message longer than its receive fails the receive, which says so", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(0, 4)));
  static_cast<void>(ends.a.send(memory.gather(8, 8), within(5s)));  // on iWARP it is just sent

  auto const error = error_of(arrival.wait(within(5s)));
  CAPTURE(error.message());
  CHECK(error == Errc::work_failed);
  CHECK(error.message().find("longer than the memory posted for it") != std::string::npos);
  must(scope.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("write and read reach an exposed region and nothing beside the piece named",
          "[channel]") {
  auto ends = two_ends();
  auto local = must(ends.domain.allocate(64));
  auto exposed = must(ends.domain.unsafe_allocate_exposed(64, RemoteAccess::read_write));
  auto const remote = must(exposed.remote());
  put(local, 0, "1234");
  put(exposed, 0, "................");

  must(ends.a.write({local.gather(0, 4), remote.slice(4, 4)}));
  // Not looked at before: on iWARP it is the read's answer that says the write has been there.
  must(ends.a.read({local.scatter(32, 12), remote.slice(0, 12)}));
  CHECK(text_at(local, 32, 12) == "....1234....");
  CHECK(text_at(exposed, 0, 12) == "....1234....");
  CHECK(local.loans() == 0);
}

TEST_CASE("a write with an immediate takes a receive and reports its bytes", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::immediates)) return;
  auto local = must(ends.domain.allocate(64));
  auto exposed = must(ends.domain.unsafe_allocate_exposed(64, RemoteAccess::write));
  auto const remote = must(exposed.remote());
  put(local, 0, "news");

  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(Receive::only_immediate()));
  must(ends.a.write(Write{local.gather(0, 4), remote.slice(8, 4)}.with_immediate(99)));
  auto const done = must(arrival.wait(within(5s)));
  must(scope.finish());

  CHECK(done.immediate == 99u);
  CHECK(done.bytes == 4);
  CHECK(text_at(exposed, 8, 4) == "news");
}

TEST_CASE("a blocking receive that times out gives its bytes back and breaks the channel",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  auto const error = error_of(ends.a.receive(memory.scatter(0, 64), within(20ms)));

  CHECK(error == Errc::timed_out);
  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(*ends.a.first_cause() == Errc::timed_out);
  CHECK(error_of(ends.a.send(memory.gather(0, 1))) == Errc::channel_broken);
}

TEST_CASE("a send that nobody receives ends at its deadline", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(ends.domain.allocate(64));

  CHECK(error_of(ends.a.send(memory.gather(0, 8), within(20ms))) == Errc::timed_out);
  CHECK(memory.loans() == 0);
}

TEST_CASE("a refused write says what was refused, and breaks the channel with that cause",
          "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  auto memory = must(ends.domain.allocate(64));

  auto const error = error_of(ends.a.write({memory.gather(0, 8), nobody(8)}));

  CHECK(error == Errc::work_failed);
  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->operation == Operation::write);
  CHECK(error.work()->bytes == 8);
  CHECK(error.work()->queue_pair_number == ends.a.endpoint().queue_pair_number.value());
  CHECK(error.work()->peer_queue_pair_number == ends.b.endpoint().queue_pair_number.value());
  auto const later = error_of(ends.a.send(memory.gather(0, 8)));
  CHECK(later == Errc::channel_broken);
  CHECK(later.message().find(std::string{name_of(error.work()->status)}) != std::string::npos);
  CHECK(memory.loans() == 0);
}

TEST_CASE("a moved channel works under its new name", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  Channel a{std::move(ends.a)};

  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(32, 8)));
  must(a.send(memory.gather(0, 8)));
  CHECK(must(arrival.wait(within(5s))).bytes == 8);
  must(scope.finish());
}

TEST_CASE("two channels of a process are connected by one call, each to the other", "[channel]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto memory = must(domain.allocate(64));
  auto one = must(prepare_channel(domain, {}));
  auto other = must(prepare_channel(domain, {}));
  Endpoint const address = one.endpoint();
  auto [near, far] = must(connect_local(std::move(one), std::move(other)));
  CHECK(near.endpoint() == address);
  CHECK(near.peer() == far.endpoint());
  CHECK(far.peer() == near.endpoint());

  PollingScope scope{far};
  auto arrival = must(scope.post_receive(memory.scatter(32, 8)));
  must(near.send(memory.gather(0, 8), within(5s)));
  CHECK(must(arrival.wait(within(5s))).bytes == 8);
  must(scope.finish());
}

TEST_CASE("a channel that was used before is not connected to another", "[channel]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto one = must(prepare_channel(domain, {}));
  auto used = must(prepare_channel(domain, {}));
  auto const moved = std::move(used);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(error_of(connect_local(std::move(one), std::move(used))) == Errc::stale_handle);
  CHECK_FALSE(moved.is_used_up());
}

TEST_CASE("a channel is its own peer when given its own endpoint", "[channel]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto memory = must(domain.allocate(64));
  auto prepared = must(channel_builder().protection_domain(domain).build());
  auto channel = must(std::move(prepared).handshake(prepared.endpoint()));

  PollingScope scope{channel};
  auto arrival = must(scope.post_receive(memory.scatter(32, 8)));
  static_cast<void>(must(scope.post_send(memory.gather(0, 8))));
  CHECK(must(arrival.wait(within(5s))).bytes == 8);
  must(scope.finish());
}
