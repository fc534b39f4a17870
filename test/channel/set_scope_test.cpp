// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a scope of a set ends with every byte back, on whichever channel it was lent and however
// the scope ends, and does not grow with channels that go. Method: servers in a set, clients
// outside, all in one process.
#include "support/two_ends.hpp"

#include <lend/channel/datagram_channel.hpp>
#include <lend/channel/unreliable_channel.hpp>

#include <array>
#include <optional>
#include <stdexcept>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Served {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(4096));
  WaitSet set = must(WaitSet::create(context));
  std::vector<Channel> servers{}, clients{};

  explicit Served(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add();
  }
  void add() {
    ChannelOptions in_set = options_with_depth(8);
    in_set.wait_set = &set;
    in_set.tag = servers.size();
    auto [server, client] = connected(domain, in_set, options_with_depth(8));
    servers.push_back(std::move(server));
    clients.push_back(std::move(client));
  }
  void receive_on_all(SetScope& scope) {
    for (std::size_t i = 0; i < servers.size(); ++i)
      static_cast<void>(must(must(scope.on(servers[i]))->post_receive(memory.scatter(64 * i, 8))));
  }
  void send_to_all() {
    for (Channel& client : clients) must(client.send(memory.gather(2048, 8), within(10s)));
  }
};

}  // namespace

TEST_CASE("a scope of a set drains all its channels", "[channel]") {
  Served served{3};
  {
    SetScope scope{served.set};
    served.receive_on_all(scope);
    CHECK(served.memory.loans() == 3);
    CHECK(must(scope.on(served.servers[1])) == must(scope.on(served.servers[1])));
    served.send_to_all();
    must(scope.finish());
    CHECK(served.memory.loans() == 0);
    CHECK(error_of(scope.on(served.servers[0])) == Errc::stale_handle);
    CHECK(error_of(scope.finish()) == Errc::stale_handle);
  }
  {
    SetScope scope{served.set};
    served.receive_on_all(scope);
    served.send_to_all();
  }
  CHECK(served.memory.loans() == 0);
  for (Channel const& server : served.servers) CHECK(server.first_cause() == nullptr);
}

TEST_CASE("a scope of a set aborts all that is outstanding at one bound", "[channel]") {
  bool const finishes = GENERATE(true, false);
  Served served{3};
  auto const began = Deadline::Clock::now();
  {
    SetScope scope{served.set};
    scope.drain_within(50ms);
    served.receive_on_all(scope);
    if (finishes) {
      auto const error = error_of(scope.finish());
      CHECK(error == Errc::timed_out);
      CHECK(error.drained().size() == 3);
    }
  }
  CHECK(served.memory.loans() == 0);
  CHECK(Deadline::Clock::now() - began >= 50ms);
  for (Channel const& server : served.servers) CHECK(server.first_cause() != nullptr);
}

TEST_CASE("an exception that leaves a scope of a set gets every byte back", "[channel]") {
  Served served{3};
  CHECK_THROWS_AS(
      [&] {
        SetScope scope{served.set};
        served.receive_on_all(scope);
        throw std::runtime_error{"thrown in the scope"};
      }(),
      std::runtime_error);
  CHECK(served.memory.loans() == 0);
}

TEST_CASE("an exception aborts at once what a set's scope posted during another", "[channel]") {
  Served served{1};
  struct AtExit {
    Served& served;
    SetScope& scope;
    ~AtExit() { served.receive_on_all(scope); }
  };
  auto const leaves = [&] {
    SetScope scope{served.set};
    try {
      AtExit const at_exit{served, scope};
      throw std::logic_error{"handled in the scope"};
    } catch (std::logic_error const&) {
    }
    throw std::runtime_error{"thrown in the scope"};
  };
  CHECK_THROWS_AS(leaves(), std::runtime_error);
  CHECK(served.memory.loans() == 0);
  REQUIRE(served.servers[0].first_cause() != nullptr);
  CHECK(*served.servers[0].first_cause() == Errc::channel_broken);  // not for lack of time
}

TEST_CASE("a channel that goes takes its failures out of a set's scope", "[channel]") {
  Served served{1};
  SetScope scope{served.set};
  int const rounds = served.context.capabilities().endpoints ? 100 : 3;
  for (int round = 0; round < rounds; ++round) {
    served.add();
    PollingScope& leaving = *must(scope.on(served.servers.back()));
    auto lost = must(leaving.post_receive(served.memory.scatter(64, 8)));
    served.servers.pop_back();
    served.clients.pop_back();
    CHECK(served.memory.loans() == 0);
    CHECK(error_of(lost.poll()) == Errc::stale_handle);
  }
  served.receive_on_all(scope);
  served.send_to_all();
  must(scope.finish());
}

TEST_CASE("a scope of a set refuses the channels of others", "[channel]") {
  Served served{1}, others{1};
  SetScope scope{served.set};
  CHECK(error_of(scope.on(others.servers[0])) == Errc::invalid_argument);
  CHECK(error_of(scope.on(served.clients[0])).message().find("wait_set()") != std::string::npos);
  must(scope.finish());
}

TEST_CASE("a scope of a set lends on channels of every service", "[channel]") {
  Context const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::datagrams) ||
      lacks(context, &DeviceCapabilities::unreliable))
    return;
  ProtectionDomain const domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(65536));
  WaitSet set = must(WaitSet::create(context));
  ChannelOptions in_set;
  in_set.wait_set = &set;
  auto [server, client] = connected(domain, in_set, {});
  auto prepared = must(unreliable_channel_builder(domain).wait_set(set, 1).build());
  auto prepared_peer = must(unreliable_channel_builder(domain).build());
  Endpoint const there = prepared_peer.endpoint();
  auto peer = must(std::move(prepared_peer).handshake(prepared.endpoint()));
  auto unreliable = must(std::move(prepared).handshake(there));
  auto datagrams = must(datagram_channel_builder(domain).wait_set(set, 2).build());
  auto outside = must(datagram_channel_builder(domain).build());
  put(memory, 0, "to all of it");
  auto const source = memory.gather(0, 12);
  bool const is_finished = GENERATE(true, false);
  {
    SetScope scope{set};
    CHECK(error_of(scope.on(peer)) == Errc::invalid_argument);
    CHECK(error_of(scope.on(outside)) == Errc::invalid_argument);
    auto message = must(must(scope.on(server))->post_receive(memory.scatter(64, 16)));
    auto other = must(must(scope.on(unreliable))->post_receive(memory.scatter(128, 16)));
    auto const room = [&](std::size_t i) {
      return must(DatagramRoom::in(memory.scatter(8192 * (i + 1), 4136)));
    };
    auto datagram = must(must(scope.on(datagrams))->post_receive(room(0)));
    auto unanswered = must(must(scope.on(datagrams))->post_receive(room(1)));
    CHECK(must(scope.on(datagrams)) == must(scope.on(datagrams)));
    CHECK(must(scope.on(unreliable)) == must(scope.on(unreliable)));
    CHECK(memory.loans() == 4);

    must(client.send(source, within(10s)));
    must(peer.send(source, within(10s)));
    must(outside.send(source, must(outside.destination(datagrams.address())), within(10s)));

    std::array<bool, 3> are_named{};
    while (are_named != std::array{true, true, true}) {
      std::array<Ready, 4> room_for_news;
      for (Ready const& news : must(set.wait(room_for_news, within(10s))))
        are_named.at(news.tag) = true;
    }
    CHECK(must(message.wait()).bytes == 12);
    CHECK(must(other.wait()).bytes == 12);
    auto const got = must(datagram.wait());
    CHECK(text_at(memory, got.message.range.offset, got.bytes()) == "to all of it");
    CHECK(memory.loans() == 1);
    if (is_finished) {
      must(scope.finish());
      CHECK(error_of(scope.on(datagrams)) == Errc::stale_handle);
      CHECK(error_of(unanswered.poll()) == Errc::stale_handle);
    }
  }
  // The room that nobody filled was recalled, which breaks nothing.
  CHECK(memory.loans() == 0);
  CHECK(datagrams.first_cause() == nullptr);
  CHECK(unreliable.first_cause() == nullptr);
}
