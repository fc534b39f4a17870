// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one thread accepts any number of clients in its event loop, and no
// client delays another or leaves anything behind. Method: clients in threads
// and forked processes on loopback; bad ones stop, hang up or send garbage
// after each frame of the exchange, played by hand.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>

#include "network/raw_peers.hpp"
#include "network/station.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

Listener::Prepare ends_of(Station const& station) {
  return [&station](Arrival const&) { return prepare_channel(station.domain, {}); };
}

/// Polls as an event loop does, until so many are connected.
std::vector<Accepted<Channel>> accept_by_poll(Listener& listener, std::size_t count) {
  std::vector<Accepted<Channel>> made;
  auto const limit = within(patience);
  while (made.size() < count) {
    pollfd waiting{listener.descriptor(), POLLIN, 0};
    REQUIRE(must(network::wait_for({&waiting, 1}, limit)));
    while (auto accepted = must(listener.poll())) made.push_back(*std::move(accepted));
  }
  return made;
}

/// Polls until the listener has closed this connection.
void poll_until_closed(Listener& listener, network::Socket const& bad) {
  auto const limit = within(patience);
  std::array<std::byte, 1024> heard;
  for (bool is_open = true; is_open;) {
    std::array<pollfd, 2> waiting{pollfd{listener.descriptor(), POLLIN, 0},
                                  pollfd{bad.fd.get(), POLLIN, 0}};
    REQUIRE(must(network::wait_for(waiting, limit)));
    if (waiting[0].revents != 0) CHECK_FALSE(must(listener.poll()).has_value());
    if (waiting[1].revents != 0)
      is_open = ::recv(bad.fd.get(), heard.data(), heard.size(), MSG_DONTWAIT) > 0;
  }
}

/// How far a bad client comes.
enum class Stop { silent, in_hello, after_hello, in_greeting, after_greeting, after_agreement };
constexpr std::array stops{Stop::silent,      Stop::in_hello,       Stop::after_hello,
                           Stop::in_greeting, Stop::after_greeting, Stop::after_agreement};

Bytes bytes_until(Stop stop, Endpoint const& endpoint) {
  auto bytes = joined(introduction({endpoint}), agreed());
  switch (stop) {
    case Stop::silent: return {};
    case Stop::in_hello: bytes.resize(network::hello_bytes / 2); break;
    case Stop::after_hello: bytes.resize(network::hello_bytes); break;
    case Stop::in_greeting: bytes.resize(network::hello_bytes + network::greeting_bytes / 2); break;
    case Stop::after_greeting: bytes.resize(introduction_bytes); break;
    case Stop::after_agreement: break;
  }
  return bytes;
}

/// A client that connects, and says a word to its peer.
std::thread client_at(Listener const& listener, std::optional<Channel>& made) {
  return std::thread{[&listener, &made] {
    Station station;
    made.emplace(must(connect(listener.address(), station.prepared(), within(patience))));
  }};
}

/// As many as are good for this device and the descriptors of this process.
std::size_t crowd_of(Station const& station) {
  if (station.context.kind() != DeviceKind::soft) return 40;
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  auto const possible = (limit.rlim_cur - open_descriptors() - 100) / 8;
  if (possible < 1000) WARN("scaled to " << possible << " clients: descriptors allow no more");
  return std::min<std::size_t>(1000, possible);
}

}  // namespace

TEST_CASE("one thread accepts a thousand clients by poll()", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto const count = crowd_of(station);
  auto listener = must(Listener::open("127.0.0.1:0"));
  std::set<std::uint64_t> arrived;
  must(listener.begin([&](Arrival const& arrival) {
    CHECK(arrived.insert(arrival.id).second);
    CHECK(arrival.address.starts_with("127.0.0.1:"));
    return prepare_channel(station.domain, {});
  }));
  std::vector<std::optional<Channel>> far(count);
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> connecting;
  for (int i = 0; i < 8; ++i)
    connecting.emplace_back([&] {
      for (auto at = next++; at < count; at = next++)
        far[at].emplace(must(connect(listener.address(), station.prepared(), within(patience))));
    });

  auto const near = accept_by_poll(listener, count);
  for (auto& one : connecting) one.join();

  std::vector<Endpoint> peers;
  for (auto const& one : near) {
    CHECK(arrived.erase(one.id) == 1);
    peers.push_back(one.made.peer());
  }
  CHECK(arrived.empty());
  for (auto const& one : far) CHECK(std::ranges::count(peers, one->endpoint()) == 1);
  pollfd idle{listener.descriptor(), POLLIN, 0};
  CHECK_FALSE(must(network::wait_for({&idle, 1}, within(0ms))));
}

TEST_CASE("clients that stop after any frame delay no good one", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  // Nobody is late before this test fails.
  must(listener.begin(ends_of(station), {.patience = 2 * patience}));
  auto const end = station.prepared();
  std::vector<network::Socket> bad;
  for (auto const stop : stops)
    for (int i = 0; i < 10; ++i) {
      bad.push_back(dial(listener.address()));
      say(bad.back(), bytes_until(stop, end.endpoint()));
    }
  std::optional<Channel> far;
  auto connecting = client_at(listener, far);

  auto const near = accept_by_poll(listener, 1);
  connecting.join();

  CHECK(near[0].made.peer() == far->endpoint());
}

TEST_CASE("clients that hang up or send garbage after any frame leave nothing behind",
          "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  must(listener.begin(ends_of(station)));
  auto const end = station.prepared();
  auto const before = open_descriptors();
  for (auto const stop : stops)
    for (bool const hangs_up : {true, false}) {
      CAPTURE(static_cast<int>(stop), hangs_up);
      auto const bad = dial(listener.address());
      say(bad, bytes_until(stop, end.endpoint()));
      if (!hangs_up) say(bad, Bytes(2000, std::byte{'l'}));
      ::shutdown(bad.fd.get(), SHUT_WR);
      poll_until_closed(listener, bad);
    }

  CHECK(open_descriptors() == before);
  std::optional<Channel> far;
  auto connecting = client_at(listener, far);
  CHECK(accept_by_poll(listener, 1)[0].made.peer().queue_pair_number.value() > 0);
  connecting.join();
}

TEST_CASE("clients that are killed in the middle leave nothing behind", "[network]") {
  if (cannot_connect()) return;
  auto listener = must(Listener::open("127.0.0.1:0"));
  PeerProcess victims{[address = listener.address()](Wire const& wire) {
    Station const station;
    auto const end = station.prepared();
    std::vector<network::Socket> sockets;
    for (auto const stop : stops) {
      sockets.push_back(dial(address));
      say(sockets.back(), bytes_until(stop, end.endpoint()));
    }
    auto const met = meet(address, end.endpoint(), {}, within(patience));
    wire.say();
    return wire.hear() && met ? 0 : 1;
  }};
  Station const station;
  auto const before = open_descriptors();
  must(listener.begin(ends_of(station), {.patience = 2 * patience}));
  std::atomic<bool> has_met{false};
  std::thread hearing{[&] { has_met = victims.wire().hear(); }};
  while (!has_met) {
    pollfd waiting{listener.descriptor(), POLLIN, 0};
    static_cast<void>(must(network::wait_for({&waiting, 1}, within(10ms))));
    CHECK_FALSE(must(listener.poll()).has_value());
  }
  hearing.join();
  victims.kill();
  std::optional<Channel> far;
  auto connecting = client_at(listener, far);

  auto near = accept_by_poll(listener, 1);
  connecting.join();

  CHECK(near[0].made.peer() == far->endpoint());
  near.clear();
  far.reset();
  for (auto const limit = within(patience); !limit.has_passed();) {
    CHECK_FALSE(must(listener.poll()).has_value());
    if (open_descriptors() == before) break;
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a client whose end is refused learns why, and the next one is accepted", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  must(listener.begin([&](Arrival const& arrival) -> Result<PreparedChannel> {
    if (arrival.id == 1) return Error{Errc::denied, "no room for you"};
    return prepare_channel(station.domain, {});
  }));
  Result<Meeting> refused = Errc::timed_out;
  std::optional<Channel> far;
  std::thread connecting{[&] {
    auto const end = station.prepared();
    refused = meet(listener.address(), end.endpoint(), {}, within(patience));
    far.emplace(must(connect(listener.address(), station.prepared(), within(patience))));
  }};

  auto const near = accept_by_poll(listener, 1);
  connecting.join();

  CHECK(near[0].id == 2);
  CHECK(near[0].made.peer() == far->endpoint());
  CHECK(error_of(refused) == Errc::peer_lost);
  CHECK_THAT(error_of(refused).message(), Catch::Contains("no room for you"));
  CHECK_THAT(listener.last_rejected(), Catch::Contains("no room for you"));
}

TEST_CASE("more clients than ends wait for their turn", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  std::size_t prepared = 0;
  std::size_t taken = 0;
  must(listener.begin(
      [&](Arrival const&) {
        ++prepared;
        CHECK(prepared <= taken + 2);
        return prepare_channel(station.domain, {});
      },
      {.unproven_max = 3, .connecting_max = 1, .patience = patience}));
  std::vector<std::optional<Channel>> far(8);
  std::vector<std::thread> connecting;
  for (auto& one : far) connecting.push_back(client_at(listener, one));

  std::vector<Accepted<Channel>> near;
  for (; taken < far.size(); ++taken) near.push_back(std::move(accept_by_poll(listener, 1)[0]));
  for (auto& one : connecting) one.join();

  CHECK(prepared == far.size());
}

TEST_CASE("a listener accepts in one way, within limits", "[network]") {
  Station const station;
  auto listener = must(Listener::open("127.0.0.1:0"));

  CHECK(error_of(listener.poll()) == Errc::invalid_argument);
  CHECK(error_of(listener.begin({})) == Errc::invalid_argument);
  CHECK(error_of(listener.begin(ends_of(station), {.unproven_max = 0})) == Errc::invalid_argument);
  CHECK(error_of(listener.begin(ends_of(station), {.connecting_max = 0})) ==
        Errc::invalid_argument);
  CHECK(error_of(listener.begin(ends_of(station), {.patience = 0ms})) == Errc::invalid_argument);
  must(listener.begin(ends_of(station)));
  CHECK(error_of(listener.begin(ends_of(station))) == Errc::invalid_argument);
  CHECK(error_of(listener.accept(station.prepared(), within(0ms))) == Errc::invalid_argument);
  CHECK_FALSE(must(listener.poll()).has_value());
  auto const moved = std::move(listener);
  CHECK(error_of(listener.poll()) == Errc::stale_handle);
}
