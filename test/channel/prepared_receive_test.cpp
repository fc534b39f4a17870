// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a receive that was posted before the channel was connected takes the peer's first message,
// and its bytes come back however the channel comes to nothing. Method: two prepared channels.
#include "support/two_ends.hpp"

#include <optional>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct TwoPrepared {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  PreparedChannel one = must(prepare_channel(domain, options_with_depth(4)));
  PreparedChannel other = must(prepare_channel(domain, options_with_depth(4)));
  MemoryRegion memory = must(domain.allocate(64));

  /// As the device does it: by endpoints, else by rdma_cm.
  std::pair<Channel, Channel> connect() {
    if (!context.capabilities().endpoints) return adopt_both();
    auto const first = one.endpoint(), second = other.endpoint();
    Channel a = must(std::move(one).handshake(second));
    return {std::move(a), must(std::move(other).handshake(first))};
  }
  /// Connects the queue pairs beside their channels.
  std::pair<QueuePair, QueuePair> connect_taken() {
    if (!context.capabilities().endpoints)
      return connect_by_cm(one.take_queue_pair(), other.take_queue_pair());
    auto const first = one.endpoint(), second = other.endpoint();
    auto connected = must(one.take_queue_pair().connect(second));
    return {std::move(connected), must(other.take_queue_pair().connect(first))};
  }
  std::pair<Channel, Channel> adopt_both() {
    auto [first, second] = connect_taken();
    Channel a = must(std::move(one).adopt(std::move(first)));
    return {std::move(a), must(std::move(other).adopt(std::move(second)))};
  }
};

/// Both receives of `b` take what `a` sends.
void check_messages(MemoryRegion& memory, Channel& a, PendingWork& first, PendingWork& second) {
  CHECK(memory.loans() == 2);
  must(a.send(memory.gather(0, 8), within(5s)));
  must(a.send(memory.gather(0, 4), within(5s)));
  CHECK(must(second.wait(within(5s))).bytes == 4);
  CHECK(must(first.wait(within(5s))).bytes == 8);
  CHECK(memory.loans() == 0);
}

}  // namespace

TEST_CASE("receives posted before the connection take the peer's first messages", "[channel]") {
  TwoPrepared ends;
  auto first = must(ends.other.post_receive(ends.memory.scatter(16, 8)));
  auto second = must(ends.other.post_receive(ends.memory.scatter(24, 8)));
  CHECK_FALSE(must(first.poll()).has_value());

  SECTION("connected as the device does it") {
    auto [a, b] = ends.connect();
    check_messages(ends.memory, a, first, second);
    CHECK(b.last_failures().empty());
  }
  SECTION("connected beside the channel, and adopted") {
    auto [a, b] = ends.adopt_both();
    check_messages(ends.memory, a, first, second);
  }
}

TEST_CASE("a channel prepared again takes receives before it is connected", "[channel]") {
  TwoPrepared ends;
  auto [a, b] = ends.connect();
  ends.one = must(std::move(a).prepare_again());
  ends.other = must(std::move(b).prepare_again());
  auto first = must(ends.other.post_receive(ends.memory.scatter(16, 8)));
  auto second = must(ends.other.post_receive(ends.memory.scatter(24, 8)));

  auto [again, peer] = ends.connect();
  check_messages(ends.memory, again, first, second);
}

TEST_CASE("a dropped handle leaves its receive to the channel", "[channel]") {
  TwoPrepared ends;
  static_cast<void>(must(ends.other.post_receive(ends.memory.scatter(16, 8))));
  CHECK(ends.memory.loans() == 1);
  auto [a, b] = ends.connect();
  must(a.send(ends.memory.gather(0, 8), within(5s)));
  // The second takes the next message, so that the first is over by then.
  PollingScope scope{b};
  auto next = must(scope.post_receive(ends.memory.scatter(24, 8)));
  must(a.send(ends.memory.gather(0, 8), within(5s)));
  must(next.wait(within(5s)));
  CHECK(ends.memory.loans() == 0);
  must(scope.finish());
}

TEST_CASE("a wait before the connection is refused, and the receive stays", "[channel]") {
  TwoPrepared ends;
  auto work = must(ends.other.post_receive(ends.memory.scatter(16, 8)));

  auto const error = error_of(work.wait());  // without a deadline

  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains("not connected yet"));
  auto [a, b] = ends.connect();
  must(a.send(ends.memory.gather(0, 8), within(5s)));
  CHECK(must(work.wait(within(5s))).bytes == 8);
}

TEST_CASE("what a prepared channel lent comes back when nothing comes of it", "[channel]") {
  TwoPrepared ends;
  auto work = must(ends.other.post_receive(ends.memory.scatter(16, 8)));
  std::optional<QueuePair> taken;

  SECTION("it is dropped") {
    static_cast<void>(PreparedChannel{std::move(ends.other)});
  }
  SECTION("its handshake fails") {
    Endpoint misfit = ends.one.endpoint();
    misfit.mtu_bytes = 9000;
    CHECK(std::move(ends.other).handshake(misfit).has_error());
  }
  SECTION("it adopts another queue pair") {
    taken = ends.connect_taken().first;
    CHECK(error_of(std::move(ends.other).adopt(std::move(*taken))) == Errc::invalid_argument);
  }
  SECTION("its queue pair is gone, and then itself") {
    static_cast<void>(ends.other.take_queue_pair());
    static_cast<void>(PreparedChannel{std::move(ends.other)});
  }
  SECTION("it is dropped, and its queue pair is still there") {
    auto queue_pair = ends.other.take_queue_pair();
    static_cast<void>(PreparedChannel{std::move(ends.other)});
    CHECK(ends.memory.loans() == 0);
  }
  SECTION("it is dropped, and its queue pair is still there, connected") {
    auto both = ends.connect_taken();
    static_cast<void>(PreparedChannel{std::move(ends.other)});
    CHECK(ends.memory.loans() == 0);
  }

  CHECK(ends.memory.loans() == 0);
  CHECK(error_of(work.poll()) == Errc::stale_handle);
}

TEST_CASE("receives that cannot be are refused before the connection as later", "[channel]") {
  TwoPrepared ends;

  SECTION("beyond the depth") {
    std::vector<PendingWork> works;
    for (std::size_t at = 0; at < 32; at += 8)
      works.push_back(must(ends.other.post_receive(ends.memory.scatter(at, 8))));
    CHECK(error_of(ends.other.post_receive(ends.memory.scatter(32, 8))) == Errc::queue_full);
    CHECK(ends.memory.loans() == 4);
  }
  SECTION("bytes that are on loan") {
    auto work = must(ends.other.post_receive(ends.memory.scatter(0, 8)));
    CHECK(error_of(ends.one.post_receive(ends.memory.scatter(4, 8))) == Errc::already_borrowed);
  }
  SECTION("out of bounds") {
    CHECK(error_of(ends.other.post_receive(ends.memory.scatter(60, 8))) == Errc::invalid_argument);
  }
  SECTION("once the queue pair was taken") {
    auto queue_pair = ends.other.take_queue_pair();
    auto const error = error_of(ends.other.post_receive(ends.memory.scatter(0, 8)));
    CHECK(error == Errc::invalid_argument);
    CHECK_THAT(error.message(), Catch::Contains("take_queue_pair()"));
  }
}
