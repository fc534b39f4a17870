// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel over an unreliable connection has loans, scopes and failures as any other, and
// nothing of it waits for a peer that is gone. Method: two ends in one process.
#include "support/two_ends.hpp"

#include <lend/channel/datagram_channel.hpp>
#include <lend/channel/unreliable_channel.hpp>

#include <optional>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

bool has_none(Context const& context) {
  return lacks(context, &DeviceCapabilities::unreliable);
}

struct Unreliable {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.unsafe_allocate_exposed(65536, RemoteAccess::read_write));
  PreparedUnreliableChannel prepared_a =
      must(unreliable_channel_builder(domain).send_depth(8).receive_depth(4).build());
  PreparedUnreliableChannel prepared_b =
      must(unreliable_channel_builder(domain).receive_depth(16).build());
  Endpoint at_a = prepared_a.endpoint();
  UnreliableChannel a = must(std::move(prepared_a).handshake(prepared_b.endpoint()));
  std::optional<UnreliableChannel> b = must(std::move(prepared_b).handshake(at_a));
};

}  // namespace

TEST_CASE("an unreliable channel sends, receives and writes, with immediates", "[channel]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  put(ends.memory, 0, "hello");
  UnreliableScope scope{*ends.b};
  auto message = must(scope.post_receive(ends.memory.scatter(100, 50)));
  auto notice = must(scope.post_receive(Receive::only_immediate()));

  must(ends.a.send(Send{ends.memory.gather(0, 5)}.with_immediate(7), within(5s)));
  Write const write{ends.memory.gather(0, 5), must(ends.memory.remote()).slice(200, 5)};
  must(ends.a.write(write.with_immediate(8), within(5s)));

  WorkSuccess const got = must(message.wait(within(5s)));
  CHECK(got.bytes == 5);
  CHECK(got.immediate == 7u);
  CHECK(must(notice.wait(within(5s))).immediate == 8u);
  must(scope.finish());
  CHECK(text_at(ends.memory, 100, 5) == "hello");
  CHECK(text_at(ends.memory, 200, 5) == "hello");
  CHECK(ends.memory.loans() == 0);
}

TEST_CASE("an unreliable message that finds no receive is lost, and the next one is not",
          "[channel]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  // A device that carries the message after its sender's completion may find the next receive.
  for (Deadline const deadline = within(60s);;) {
    must(ends.a.send(ends.memory.gather(0, 8), within(5s)));

    auto const bytes = ends.b->scope([&](UnreliableScope& scope) -> Result<std::uint64_t> {
      LEND_TRY(work, scope.post_receive(ends.memory.scatter(100, 8)));
      LEND_TRYV(ends.a.send(ends.memory.gather(0, 4), within(5s)));
      LEND_TRY(done, work.wait(within(5s)));
      return done.bytes;
    });
    CHECK((must(bytes) == 4 || must(bytes) == 8));
    if (must(bytes) == 4) break;
    REQUIRE_FALSE(deadline.has_passed());
  }
}

TEST_CASE("sends to an unreliable peer that died succeed, and a receive waits for its deadline",
          "[channel]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  ends.b.reset();

  for (int i = 0; i < 20; ++i) must(ends.a.send(ends.memory.gather(0, 64), within(5s)));
  CHECK(ends.a.first_cause() == nullptr);
  UnreliableScope scope{ends.a};
  auto work = must(scope.post_receive(ends.memory.scatter(100, 8)));
  CHECK(error_of(work.wait(within(1ms))) == Errc::timed_out);
  CHECK(ends.a.first_cause() == nullptr);

  auto const error = error_of(scope.drain_within(1ms).finish());
  CHECK(error == Errc::timed_out);
  CHECK(ends.a.first_cause() != nullptr);
  CHECK(ends.memory.loans() == 0);
}

TEST_CASE("a batch of an unreliable channel arrives in order", "[channel]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  UnreliableScope theirs{*ends.b};
  std::vector<PendingWork> works;
  for (std::size_t i = 0; i < 10; ++i)
    works.push_back(must(theirs.post_receive(ends.memory.scatter(1000 + i * 64, 64))));

  UnreliableScope scope{ends.a};
  {
    auto batch = scope.batch();
    for (std::size_t i = 0; i < 8; ++i)
      static_cast<void>(must(batch.add_send(ends.memory.gather(0, i + 1))));
    must(batch.post(within(5s)));
  }
  must(scope.finish());

  for (std::size_t i = 0; i < 8; ++i) CHECK(must(works[i].wait(within(5s))).bytes == i + 1);
  for (int i = 0; i < 2; ++i) must(ends.a.send(ends.memory.gather(0, 1), within(5s)));
  must(theirs.finish());
  CHECK(ends.memory.loans() == 0);
}

TEST_CASE("an unreliable channel refuses what is wrong, and posts nothing", "[channel]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  UnreliableScope scope{ends.a};

  SECTION("bytes that are on loan") {
    static_cast<void>(must(scope.post_receive(ends.memory.scatter(0, 8))));
    CHECK(error_of(ends.a.send(ends.memory.gather(4, 8))) == Errc::already_borrowed);
    must(ends.b->send(ends.memory.gather(100, 8), within(5s)));
  }
  SECTION("a write beyond what the peer exposed") {
    Write const write{ends.memory.gather(0, 8), must(ends.memory.remote()).slice(65530, 8)};
    CHECK(error_of(ends.a.write(write)) == Errc::invalid_argument);
  }
  SECTION("the endpoint of a reliable channel") {
    auto reliable = must(channel_builder(ends.domain).build());
    auto again = must(unreliable_channel_builder(ends.domain).build());
    auto const error = error_of(std::move(again).handshake(reliable.endpoint()));
    CHECK(error == Errc::incompatible_peer);
  }
  must(scope.finish());
}

TEST_CASE("a device without unreliable services refuses their channels", "[channel]") {
  Context const context = open_test_device();
  if (context.capabilities().unreliable) return skip(context, "has them");
  auto const domain = must(context.allocate_protection_domain());
  CHECK(error_of(unreliable_channel_builder(domain).build()) == Errc::unsupported);
  CHECK(error_of(datagram_channel_builder(domain).build()) == Errc::unsupported);
}

TEST_CASE("an unreliable channel is prepared again as one", "[channel]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  Endpoint const before = ends.a.endpoint();
  auto one = must(std::move(ends.a).prepare_again());
  auto other = must(std::move(*ends.b).prepare_again());
  CHECK(one.endpoint().service == Service::unreliable_connection);
  Endpoint const at_one = one.endpoint();
  CHECK(at_one != before);
  ends.a = must(std::move(one).handshake(other.endpoint()));
  ends.b = must(std::move(other).handshake(at_one));

  UnreliableScope scope{*ends.b};
  auto work = must(scope.post_receive(ends.memory.scatter(100, 8)));
  must(ends.a.send(ends.memory.gather(0, 8), within(5s)));
  CHECK(must(work.wait(within(5s))).bytes == 8);
  must(scope.finish());
}

TEST_CASE("a wait set names an unreliable channel that has news", "[channel]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  WaitSet set = must(WaitSet::create(ends.context));
  auto one = must(unreliable_channel_builder(ends.domain).wait_set(set, 42).build());
  auto other = must(unreliable_channel_builder(ends.domain).build());
  Endpoint const at_one = one.endpoint();
  UnreliableChannel a = must(std::move(one).handshake(other.endpoint()));
  UnreliableChannel b = must(std::move(other).handshake(at_one));

  UnreliableScope scope{a};
  auto work = must(scope.post_receive(ends.memory.scatter(100, 8)));
  must(b.send(ends.memory.gather(0, 8), within(5s)));
  std::array<Ready, 4> room;
  auto const ready = must(set.wait(room, within(5s)));
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tag == 42);
  CHECK(must(work.poll()).has_value());
  must(scope.finish());
}
