// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one thread with one epoll makes many connections, and gives some up at any step.
// Method: listener and connectors in one event loop, on one device.
#include <poll.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cm/event_loop.hpp"
#include "cm_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Clients outside and their servers, which receive by a pool of a set.
struct Many {
  static constexpr int count = 24;
  static constexpr std::size_t piece = 64;

  CmHost host{};
  MemoryRegion memory = must(host.domain.allocate(2 * count * piece));
  WaitSet set = must(WaitSet::create(host.context));
  ReceivePool pool = must(ReceivePool::create(set, memory.chunks(piece), {.tag = 1000}));
  CmListener listener = must(CmListener::open(test_address(0)));
  EventLoop loop{};
  std::map<std::size_t, PreparedChannel> prepared{};  // by place in the loop
  std::map<std::size_t, int> clients{};               // theirs, and which it is
  std::map<int, Channel> to_server{}, to_client{};

  Many() {
    loop.serve(listener, [this](CmRequest request) {
      auto const who = request.peer().private_data;
      ChannelOptions options = options_with_depth(4);
      options.wait_set = &set;
      options.receive_pool = &pool;
      options.tag = std::to_integer<std::uint64_t>(who.at(0));
      return std::move(request).begin_accept(prepare(options), within(bound), who);
    });
  }
  PreparedQueuePair prepare(ChannelOptions const& options) {
    return prepared.emplace(loop.makings.size(), host.prepare(options))
        .first->second.take_queue_pair();
  }
  void connect(int which) {
    std::array const who{std::byte(which)};
    clients[loop.makings.size()] = which;
    auto queue_pair = prepare(options_with_depth(4));
    loop.add(CmConnecting::begin(listener.address(), std::move(queue_pair), within(bound),
                                 {.private_data = who}));
  }
  /// Turns the loop until all are over; then each has its channel, or is begun again.
  bool finish() {
    while (loop.under_way() > 0) REQUIRE(loop.turn(60'000));
    std::vector<int> again;
    for (std::size_t i = 0; i < loop.makings.size(); ++i) {
      auto& one = loop.makings[i];
      auto const client = clients.find(i);
      // SoftiWARP resets some after it has accepted them: try_connect_by_cm().
      if (one.error && !host.context.capabilities().endpoints) {
        UNSCOPED_INFO(one.error->message());
        if (client != clients.end()) again.push_back(client->second);
        continue;
      }
      REQUIRE(one.is_connected());
      auto const other = std::to_integer<int>(one.connection->peer.private_data.at(0));
      auto channel = must(std::move(prepared.at(i)).adopt(std::move(one.connection->queue_pair)));
      if (client != clients.end()) CHECK(client->second == other);
      auto& ends = client != clients.end() ? to_server : to_client;
      ends.insert_or_assign(other, std::move(channel));
    }
    loop.makings.clear();
    prepared.clear();
    clients.clear();
    for (int const which : again) connect(which);
    return again.empty();
  }
};

/// What the guide shows.
Result<Channel> connect_in_a_loop(std::string const& address, PreparedChannel prepared) {
  // excerpt connecting
  LEND_TRY(connecting,
           lend::CmConnecting::begin(address, prepared.take_queue_pair(), lend::within(60s)));
  std::optional<lend::CmConnection> connected;
  while (!connected) {
    pollfd wait{connecting.descriptor(), POLLIN, 0};  // or an epoll with all else
    ::poll(&wait, 1, -1);
    LEND_TRY(advanced, connecting.advance());
    connected = std::move(advanced);
  }
  LEND_TRY(channel, std::move(prepared).adopt(std::move(connected->queue_pair)));
  // end of excerpt
  return std::move(channel);
}

}  // namespace

TEST_CASE("a connection made in a loop of its own is a channel as any other", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  auto connecting =
      meanwhile([&] { return connect_in_a_loop(listener.address(), host.prepare()); });
  auto const b =
      must(accept_from(must(listener.next(within(bound))), host.prepare(), within(bound)));
  auto a = must(connecting.get());
  CHECK(a.peer().send_depth == b.channel.send_depth());
}

TEST_CASE("one thread connects many by one epoll, and each reaches its own peer", "[cm]") {
  Many many;
  for (int i = 0; i < Many::count; ++i) many.connect(i);
  for (int tries = 1; !many.finish(); ++tries) REQUIRE(tries < 5);

  REQUIRE(many.to_server.size() == Many::count);
  REQUIRE(many.to_client.size() == Many::count);
  auto words = must(many.host.domain.allocate(64));
  for (auto& [which, client] : many.to_server) {
    put(words, 0, std::to_string(which));
    must(client.send(words.gather(0, 2), within(bound)));
    std::array<Ready, 4> room{};
    std::optional<Message> message;
    for (auto const limit = within(bound); !(message = many.pool.next());)
      must(many.set.wait(room, limit));
    CHECK(message->tag() == std::uint64_t(which));
    CHECK(message->bytes().size() == 2);
    message.reset();
    put(words, 32, "yes");
    PollingScope scope{client};
    auto answer = must(scope.post_receive(words.scatter(0, 16), within(bound)));
    must(many.to_client.at(which).send(words.gather(32, 3), within(bound)));
    CHECK(must(answer.wait(within(bound))).bytes == 3);
    must(scope.finish());
  }
}

TEST_CASE("a connection given up at any step leaves the listener and the device usable", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  for (int turns = 0; turns < 8; ++turns) {
    std::vector<PreparedChannel> prepared;
    EventLoop loop;
    loop.serve(listener, [&](CmRequest request) {
      auto queue_pair = prepared.emplace_back(host.prepare()).take_queue_pair();
      return std::move(request).begin_accept(std::move(queue_pair), within(bound));
    });
    auto queue_pair = prepared.emplace_back(host.prepare()).take_queue_pair();
    auto& one =
        loop.add(CmConnecting::begin(listener.address(), std::move(queue_pair), within(bound)));
    for (int i = 0; i < turns && loop.under_way() > 0; ++i) static_cast<void>(loop.turn(200));
    one.connecting.reset();
  }

  // Those that were given up may have left their requests.
  std::array const last{std::byte{1}};
  auto connecting = meanwhile([&] {
    return connect_to(listener.address(), host.prepare(), within(bound), {.private_data = last});
  });
  auto request = must(listener.next(within(bound)));
  while (request.peer().private_data.empty()) request = must(listener.next(within(bound)));
  auto const accepted = must(accept_from(std::move(request), host.prepare(), within(bound)));
  must(connecting.get());
  CHECK(accepted.peer.private_data.size() == 1);
}
