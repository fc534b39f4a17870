// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what breaks or ends one channel costs the pool nothing; a pool that ends keeps no byte but
// of messages that are held; what cannot work is refused with nothing lent.
#include "channel/pooled.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("a message past the end of its piece breaks its own channel only", "[channel]") {
  Pooled pooled{2};
  static_cast<void>(pooled.clients[0]->send(pooled.far.gather(0, Pooled::piece + 1), within(5s)));
  CHECK(pooled.breaks(*pooled.servers[0]));
  CHECK(pooled.servers[1]->first_cause() == nullptr);
  CHECK(pooled.all_posted_but(0));
  pooled.say(1, "alive");
  CHECK(text_of(pooled.heard()) == "alive");
}

TEST_CASE("channels come and go, and the pool keeps every piece", "[channel]") {
  Pooled pooled{1};
  for (std::uint64_t i = 0; i < 20; ++i) {
    pooled.add(200 + i);
    pooled.say(pooled.clients.size() - 1, "hello");
    auto const message = pooled.heard();
    CHECK(message.tag() == 200 + i);
    pooled.servers.pop_back();
    pooled.clients.pop_back();
    CHECK(text_of(message) == "hello");
  }
  CHECK(pooled.all_posted_but(0));
}

TEST_CASE("messages outlive their channel, taken or not", "[channel]") {
  Pooled pooled{2};
  pooled.say(0, "before");
  pooled.servers[0].reset();
  CHECK(text_of(pooled.heard()) == "before");
  CHECK(pooled.all_posted_but(0));
  pooled.say(1, "after");
  CHECK(text_of(pooled.heard()) == "after");
}

TEST_CASE("a channel with a pool is prepared again with it", "[channel]") {
  Pooled pooled{2};
  if (lacks(pooled.context, &DeviceCapabilities::endpoints)) return;
  auto server = must(std::move(*pooled.servers[0]).prepare_again());
  auto client = must(std::move(*pooled.clients[0]).prepare_again());
  auto const endpoint = server.endpoint();
  pooled.servers[0].emplace(must(std::move(server).handshake(client.endpoint())));
  pooled.clients[0].emplace(must(std::move(client).handshake(endpoint)));
  pooled.say(0, "again");
  CHECK(pooled.heard().tag() == 100);
  CHECK(pooled.all_posted_but(0));
}

TEST_CASE("a keep-alive finds the client gone of which only messages are expected", "[channel]") {
  Pooled pooled{0};
  pooled.add(1, 20ms);
  pooled.clients[0].reset();
  CHECK(pooled.breaks(*pooled.servers[0]));
  CHECK(pooled.all_posted_but(0));
}

TEST_CASE("receives on a channel with a pool are refused and say what to do", "[channel]") {
  Pooled pooled{1};
  Channel& server = *pooled.servers[0];
  auto const refused = [](Error const& error) {
    CHECK(error == Errc::invalid_argument);
    CHECK(error.message().find("ReceivePool::next()") != std::string::npos);
  };
  auto const target = pooled.far.scatter(0, 8);
  {
    PollingScope scope{server};
    refused(error_of(scope.post_receive(target)));
    refused(error_of(scope.try_post_receive(target)));
    auto batch = scope.batch();
    refused(error_of(batch.add_receive(target)));
    must(scope.finish());
  }
  refused(error_of(server.receive(target, within(1s))));
  auto prepared = must(prepare_channel(pooled.domain, pooled.in_pool(1)));
  refused(error_of(prepared.post_receive(target)));
  CHECK(pooled.far.loans() == 0);
}

TEST_CASE("a pool that ends breaks its channels and keeps no byte", "[channel]") {
  Pooled pooled{2};
  auto prepared = must(prepare_channel(pooled.domain, pooled.in_pool(1)));
  pooled.say(0, "unread");
  CHECK(pooled.all_posted_but(1));
  pooled.pool.reset();
  CHECK(pooled.memory.loans() == 0);
  for (auto const& server : pooled.servers) {
    REQUIRE(server->first_cause() != nullptr);
    CHECK(server->first_cause()->message().find("ReceivePool has ended") != std::string::npos);
  }
  CHECK(std::move(prepared).handshake(pooled.clients[0]->endpoint()).has_error());
  CHECK(error_of(std::move(*pooled.servers[0]).prepare_again()) == Errc::invalid_argument);
}

TEST_CASE("a message that is held outlives its pool and its set", "[channel]") {
  Pooled pooled{1};
  pooled.say(0, "kept");
  {
    auto const message = pooled.heard();
    pooled.pool.reset();
    pooled.servers.clear();
    pooled.set = must(WaitSet::create(pooled.context));
    CHECK(text_of(message) == "kept");
    CHECK(pooled.memory.loans() == 1);
  }
  CHECK(pooled.memory.loans() == 0);
}

TEST_CASE("a pool that ends gives back a piece that is sent on, beside one that is held",
          "[channel]") {
  Pooled pooled{1};
  pooled.say(0, "held");
  pooled.say(0, "sent on");
  auto const held = pooled.heard();
  PollingScope scope{*pooled.servers[0]};
  {
    auto const message = pooled.heard();
    static_cast<void>(must(scope.post_send(message.gather())));  // no receive of the client's
  }
  CHECK(pooled.memory.loans() == Pooled::pieces + 1);
  pooled.pool.reset();
  CHECK(pooled.memory.loans() == 1);
  static_cast<void>(scope.finish());  // of a reliable connection broken, of iWARP over
}

TEST_CASE("a pool that cannot work is refused, and lends nothing", "[channel]") {
  Pooled pooled{1};
  auto memory = must(pooled.domain.allocate(256));
  auto const refusal = [&pooled](Chunks<MemoryPiece> const& pieces) {
    return error_of(ReceivePool::create(pooled.set, pieces));
  };
  CHECK(refusal(MemoryPiece{}.chunks(8)) == Errc::invalid_argument);
  {
    PollingScope scope{*pooled.clients[0]};
    scope.drain_within(0s);  // nobody sends
    auto const receive = must(scope.post_receive(memory.scatter(100, 8)));
    auto const error = refusal(memory.chunks(64));
    CHECK(error == Errc::already_borrowed);
    CHECK(error.message().find("pool_ends_test.cpp") != std::string::npos);
    CHECK(memory.loans() == 1);
  }
  auto const other = open_test_device();
  auto const other_domain = must(other.allocate_protection_domain());
  auto elsewhere = must(other_domain.allocate(256));
  CHECK(refusal(elsewhere.chunks(64)).message().find("another Context") != std::string::npos);
  auto bare = must(pooled.domain.allocate(256));
  must(bare.unsafe_disable_ledger());
  CHECK(refusal(bare.chunks(64)).message().find("no ledger") != std::string::npos);
  auto many = must(pooled.domain.allocate(
      static_cast<std::size_t>(pooled.context.limits().shared_receives_max) + 1));
  CHECK(refusal(many.chunks(1)) == Errc::invalid_argument);
  for (auto const* region : {&memory, &elsewhere, &bare, &many}) CHECK(region->loans() == 0);
}

TEST_CASE("a channel and a pool that do not fit are refused", "[channel]") {
  Pooled pooled{0};
  auto const refused = [](Result<PreparedChannel> const& result, std::string_view words) {
    CHECK(error_of(result) == Errc::invalid_argument);
    CHECK(error_of(result).message().find(words) != std::string::npos);
  };
  auto const other_domain = must(pooled.context.allocate_protection_domain());
  refused(prepare_channel(other_domain, pooled.in_pool(1)), "another protection domain");
  auto options = pooled.in_pool(1);
  auto other_set = must(WaitSet::create(pooled.context));
  options.wait_set = &other_set;
  refused(prepare_channel(pooled.domain, options), "another WaitSet");
  options.wait_set = nullptr;
  refused(prepare_channel(pooled.domain, options), "give wait_set");
}
