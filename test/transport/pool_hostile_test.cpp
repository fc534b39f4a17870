// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a peer of a MessagePool that sends more than it was granted loses its connection, the pool
// no receive, and other transports nothing. Method: a peer whose terms say that it may.
#include <transport/terms.hpp>

#include <string>

#include "transport/pooled_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("a peer that sends more than it was granted is disconnected, and others are not",
          "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto const count = GENERATE(2, 7, 40);
  auto const is_kept = GENERATE(true, false);
  CAPTURE(count, is_kept);
  constexpr std::uint32_t shared = 64;
  PooledServer server{1, {.message_bytes_max = 64, .transports_max = 2, .shared = shared}};
  auto near = must(SendReceive::prepare(
      server.domain, {.wait_set = &server.set, .tag = 1, .pool = &*server.pool}));
  auto far = must(SendReceive::prepare(server.domain, {.window = 512, .message_bytes_max = 64}));
  auto const granting_all = transport::encode(
      {.kind = TransportKind::send_receive, .window = 512, .message_bytes_max = 64});
  auto const endpoint = near.endpoint();
  std::optional victim{must(std::move(near).handshake(far.endpoint(), far.terms()))};
  AnyTransport hostile{must(std::move(far).handshake(endpoint, granting_all))};
  CHECK(says(*server.far[0], "before"));
  for (int i = 0; i < count; ++i) CHECK(says(hostile, "too many"));

  Result<Received> end = Received{};
  for (auto const limit = within(60s); end && !limit.has_passed();) {
    static_cast<void>(server.listed());
    end = victim->try_receive();
  }
  CHECK(error_of(end) == Errc::incompatible_peer);
  CHECK_THAT(error_of(end).message(), Catch::Contains("more than this end has room for"));
  CHECK(text_of(must(server.near[0]->try_receive())) == "before");
  if (is_kept) victim->disconnect();  // it is as broken as before
  if (!is_kept) victim.reset();
  CHECK(server.pool->shared_free() == shared - 1);  // of the other client
  // All receives are there: as many messages as these find one each.
  int heard = 0;
  for (int sent = 0; heard < 200;
       heard += text_of(must(server.near[0]->try_receive())) == "again") {
    static_cast<void>(must(server.far[0]->poll()));
    while (sent < 200 && says(*server.far[0], "again")) ++sent;
    static_cast<void>(server.listed());
  }
}

TEST_CASE("a write with an immediate brings no bytes of an earlier message", "[transport]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  if (lacks(context, &DeviceCapabilities::immediates)) return;
  PooledServer server{1, {.message_bytes_max = 64, .transports_max = 2, .shared = 1}};
  auto target = must(server.domain.allocate(64));
  auto const exposed = must(target.unsafe_expose(RemoteAccess::write));
  auto near = must(SendReceive::prepare(
      server.domain, {.wait_set = &server.set, .tag = 1, .pool = &*server.pool}));
  auto prepared = must(prepare_channel(server.domain, {}));
  auto const endpoint = near.endpoint();
  auto const terms = transport::encode(
      {.kind = TransportKind::send_receive, .window = 16, .message_bytes_max = 64});
  auto victim = must(std::move(near).handshake(prepared.endpoint(), terms));
  auto hostile = must(std::move(prepared).handshake(endpoint));
  // Each receive of the pool has once had it.
  for (int i = 0; i < 40; ++i) {
    while (!says(*server.far[0], "SECRET")) static_cast<void>(must(server.far[0]->poll()));
    static_cast<void>(server.listed());
    static_cast<void>(must(server.near[0]->poll()));
    CHECK(text_of(must(server.near[0]->try_receive())) == "SECRET");
  }
  auto field = must(server.domain.allocate(64));
  must(hostile.write(Write{field.gather(0, 14), exposed.remote().slice(0, 14)}.with_immediate(1),
                     within(60s)));
  static_cast<void>(server.listed());
  CHECK(error_of(victim.try_receive()) == Errc::incompatible_peer);
}
