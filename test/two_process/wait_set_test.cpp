// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: of many clients in other processes, those that die break their own channel in the server's
// set, and the others are served on; their deaths cost its pool nothing. Method: one of two peers
// is killed while the server talks to both; and clients that talk to a server with a pool are
// killed at random moments, which LEND_TEST_SEED repeats.
#include "support/peer_process.hpp"

#include <array>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Answers each word with one. Its next receive is posted before: not every device lets a message
/// wait for one.
int answer_until_killed(Wire const& wire) {
  auto end = one_end(wire, options_with_depth(8));
  auto memory = must(end.domain.allocate(128));
  PollingScope scope{end.channel};
  auto word = must(scope.post_receive(memory.scatter(0, 64)));
  REQUIRE(wire.say());
  for (;;) {
    must(word.wait(within(60s)));
    word = must(scope.post_receive(memory.scatter(0, 64)));
    must(end.channel.send(memory.gather(64, 64), within(60s)));
  }
  return 0;
}

/// Sends a word and waits for its echo, time and again.
int talk_until_killed(Wire const& wire) {
  auto end = one_end(wire, options_with_depth(8));
  auto memory = must(end.domain.allocate(128));
  for (;;) {
    PollingScope scope{end.channel};
    auto echo = must(scope.post_receive(memory.scatter(0, 64)));
    must(end.channel.send(memory.gather(64, 64), within(60s)));
    must(echo.wait(within(60s)));
  }
  return 0;
}

/// Echoes by a set and its pool.
struct EchoServer {
  static constexpr std::uint32_t pieces = 16;

  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(pieces * 64));
  MemoryRegion own = must(domain.allocate(64));
  WaitSet set = must(WaitSet::create(context));
  ReceivePool pool = must(ReceivePool::create(set, memory.chunks(64), {.tag = UINT64_MAX}));
  std::vector<std::optional<Channel>> channels{};
  std::vector<int> echoed{};
  std::array<Ready, 8> room{};

  void admit(Wire const& wire) {
    ChannelOptions options = options_with_depth(8);
    options.wait_set = &set;
    options.receive_pool = &pool;
    options.tag = channels.size();
    options.queue_pair.connection.ack_timeout = 10ms;
    options.queue_pair.connection.ack_retries = 3;
    channels.emplace_back(connected_over(wire, context, must(prepare_channel(domain, options))));
    echoed.push_back(0);
  }
  /// One turn; what cannot be sent has a dead receiver.
  void serve(SetScope& scope) {
    must(set.wait(room, within(30s)));
    while (auto const message = pool.next()) {
      auto const tag = message->tag();
      if (!channels[tag]) continue;
      if (must(scope.on(*channels[tag]))->post_send(message->gather()).has_value()) ++echoed[tag];
    }
  }
  /// Sends to a client that is dead until the channel says so.
  void bury(SetScope& scope, std::size_t tag) {
    auto& channel = *channels[tag];
    Deadline const deadline = within(30s);
    while (channel.first_cause() == nullptr && !deadline.has_passed()) {
      static_cast<void>(must(scope.on(channel))->try_post_send(own.gather()));
      serve(scope);
    }
    REQUIRE(channel.first_cause() != nullptr);
    channels[tag].reset();
  }
};

}  // namespace

TEST_CASE("a killed peer breaks its own channel of a set, and no other", "[two_process]") {
  PeerProcess dying{answer_until_killed}, living{answer_until_killed};
  Context const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto set = must(WaitSet::create(context));
  ChannelOptions options = options_with_depth(8);
  options.wait_set = &set;
  options.queue_pair.connection.ack_timeout = 10ms;
  options.queue_pair.connection.ack_retries = 3;
  options.keep_alive = 20ms;  // the last word may still have reached the one that is killed
  std::array<Channel, 2> channels{
      connected_over(dying.wire(), context,
                     must(prepare_channel(domain, (options.tag = 0, options)))),
      connected_over(living.wire(), context,
                     must(prepare_channel(domain, (options.tag = 1, options))))};
  auto memory = must(domain.allocate(256));
  std::array<Ready, 4> room{};
  std::array<int, 2> answered{};
  bool is_broken = false;
  PollingScope to_dying{channels[0]}, to_living{channels[1]};
  std::array<PollingScope*, 2> const scopes{&to_dying, &to_living};
  std::array<std::optional<PendingWork>, 2> answers;
  auto const ask = [&](std::size_t whom) {
    answers[whom].emplace(must(scopes[whom]->post_receive(memory.scatter(64 * whom, 64))));
    static_cast<void>(
        must(scopes[whom]->post_send(memory.gather(128 + 64 * whom, 64), within(10s))));
  };
  REQUIRE(dying.wire().hear());
  REQUIRE(living.wire().hear());
  ask(0);
  ask(1);
  while (!is_broken || answered[1] < 1000) {
    for (Ready const& ready : must(set.wait(room, within(30s)))) {
      if (ready.what == Ready::What::broken) {
        REQUIRE(ready.tag == 0);
        is_broken = true;
        continue;
      }
      auto const answer = answers[ready.tag]->poll();
      if (answer.has_error()) {  // the set lists it as broken next
        REQUIRE(ready.tag == 0);
        continue;
      }
      if (!answer.value().has_value()) continue;
      if (++answered[ready.tag] == 300 && ready.tag == 0) dying.kill();
      ask(ready.tag);
    }
  }
  CHECK(answered[0] >= 300);
  REQUIRE(channels[0].first_cause() != nullptr);
  CHECK(channels[1].first_cause() == nullptr);
  CHECK(to_dying.finish().has_error());
  must(to_living.finish());
  CHECK(memory.loans() == 0);
  living.kill();
}

TEST_CASE("clients killed at any moment cost a set their channels, and its pool nothing",
          "[two_process]") {
  auto const seed = seeds(1).front();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  std::deque<PeerProcess> clients;
  for (int i = 0; i < 13; ++i) clients.emplace_back(talk_until_killed);
  EchoServer server;
  SetScope scope{server.set};
  server.admit(clients[0].wire());
  for (std::size_t victim = 1; victim < clients.size(); ++victim) {
    server.admit(clients[victim].wire());
    auto const kill_at = static_cast<int>(random() % 100);
    while (server.echoed[victim] < kill_at) server.serve(scope);
    for (auto turns = random() % 4096; turns > 0; --turns) must(server.set.poll(server.room));
    clients[victim].kill();
    int const before = server.echoed[0];
    server.bury(scope, victim);
    while (server.echoed[0] < before + 100) server.serve(scope);  // the first is served on
  }
  CHECK(server.channels[0]->first_cause() == nullptr);
  clients[0].kill();
  server.bury(scope, 0);
  must(scope.finish());
  Deadline const deadline = within(10s);
  while (server.pool.posted() < EchoServer::pieces && !deadline.has_passed()) {
    while (server.pool.next()) {
    }
    must(server.set.poll(server.room));
  }
  CHECK(server.pool.posted() == EchoServer::pieces);
  CHECK(server.own.loans() == 0);
}
