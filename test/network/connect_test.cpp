// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one call on each side connects two processes, or says why not on both. Method: threads and
// forked processes on loopback; where one side must misbehave, its half of the exchange is played
// by hand.
#include <algorithm>
#include <optional>

#include "network/raw_peers.hpp"
#include "network/station.hpp"
#include "support/canceller.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// Sends and receives a word, in either order; the word that came. No checks: any thread.
std::string swap_words(Station const& station, Channel& channel, bool first) {
  auto memory = must(station.domain.allocate(64));
  put(memory, 0, first ? "ping" : "pong");
  if (first) must(channel.send(memory.gather(0, 4), within(patience)));
  auto const came = must(channel.receive(memory.scatter(32, 32), within(patience)));
  if (!first) must(channel.send(memory.gather(0, 4), within(patience)));
  return text_at(memory, 32, came.bytes);
}

void check_messages(Station const& station, Channel& channel, bool first) {
  CHECK(swap_words(station, channel, first) == (first ? "pong" : "ping"));
}

/// Our half of an exchange, played by hand with the endpoint of a real prepared channel.
struct Actor {
  Station station;
  PreparedChannel prepared = station.prepared();
  network::Greeting greeting;

  Actor() { say_kind(station.context.kind()); }
  void say_kind(DeviceKind kind) {
    auto endpoint = prepared.endpoint();
    endpoint.device_kind = kind;
    greeting = {endpoint};
  }
};

}  // namespace

TEST_CASE("two threads connect by one call each", "[network]") {
  if (cannot_connect()) return;
  auto const address = GENERATE("127.0.0.1:0", "localhost:0");
  Station here;
  auto listener = must(Listener::open(address));
  std::optional<Result<Channel>> far;
  Station there;
  std::thread connecting{
      [&] { far = connect(listener.address(), there.prepared(), within(patience)); }};

  auto near = listener.accept(here.prepared(), within(patience));
  connecting.join();

  auto a = must(std::move(near));
  auto b = must(std::move(*far));
  CHECK(a.peer() == b.endpoint());
  CHECK(b.peer() == a.endpoint());
  std::string came;
  std::thread answering{[&] { came = swap_words(there, b, false); }};
  check_messages(here, a, true);
  answering.join();
  CHECK(came == "ping");
}

TEST_CASE("two processes connect, and both can send at once", "[network]") {
  if (cannot_connect()) return;
  auto const before = open_descriptors();
  {
    auto listener = must(Listener::open("127.0.0.1:0"));
    PeerProcess peer{[address = listener.address()](Wire const&) {
      Station station;
      auto channel = must(connect(address, station.prepared(), within(patience)));
      return swap_words(station, channel, true) == "pong" ? 0 : 1;
    }};
    Station station;
    auto channel = must(listener.accept(station.prepared(), within(patience)));
    check_messages(station, channel, false);
    CHECK(peer.exit_status() == 0);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a listener that starts after connect() is found", "[network]") {
  if (cannot_connect()) return;
  auto const address = loopback_listener().address;
  PeerProcess peer{[&address](Wire const& wire) {
    Station station;
    auto prepared = station.prepared();
    wire.say();
    auto channel = must(connect(address, std::move(prepared), within(patience)));
    return swap_words(station, channel, true) == "pong" ? 0 : 1;
  }};
  Station station;
  REQUIRE(peer.wire().hear());
  std::this_thread::sleep_for(30ms);  // lets it be refused; it passes without, too

  auto channel = must(listen(address, station.prepared(), within(patience)));

  check_messages(station, channel, false);
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("one listener connects several peers, one after the other", "[network]") {
  if (cannot_connect()) return;
  Station station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  std::vector<std::optional<Result<Channel>>> far(4);
  std::vector<std::thread> connecting;
  for (auto& one : far)
    connecting.emplace_back([&station, &one, &listener] {
      one = connect(listener.address(), station.prepared(), within(patience));
    });

  std::vector<Channel> near;
  for (std::size_t i = 0; i < far.size(); ++i)
    near.push_back(must(listener.accept(station.prepared(), within(patience))));
  for (auto& one : connecting) one.join();

  for (auto& one : far) {
    auto const channel = must(std::move(*one));
    auto const partners = std::count_if(near.begin(), near.end(), [&](Channel const& candidate) {
      return candidate.peer() == channel.endpoint() && channel.peer() == candidate.endpoint();
    });
    CHECK(partners == 1);
  }
}

TEST_CASE("the deadline passes on either side alone, and nothing is left open", "[network]") {
  Station station;
  auto const before = open_descriptors();
  {
    auto const nobody_came = error_of(listen("127.0.0.1:0", station.prepared(), within(20ms)));
    CHECK(nobody_came == Errc::timed_out);
    CHECK_THAT(nobody_came.message(), Catch::Contains("127.0.0.1:"));

    auto const silent = loopback_listener();
    auto const no_answer = error_of(connect(silent.address, station.prepared(), within(20ms)));
    CHECK(no_answer == Errc::timed_out);
    CHECK_THAT(no_answer.message(), Catch::Contains(silent.address));
  }
  auto const gone = loopback_listener().address;
  CHECK(error_of(connect(gone, station.prepared(), within(20ms))) == Errc::timed_out);
  CHECK(open_descriptors() == before);
}

TEST_CASE("either side's wait can be cancelled, and the listener listens on", "[network]") {
  Station station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  auto const gone = loopback_listener().address;
  auto const silent = loopback_listener();
  auto const before = open_descriptors();

  CHECK(error_of(listener.accept(station.prepared(), Canceller{20ms}.deadline())) ==
        Errc::cancelled);
  CHECK(error_of(connect(gone, station.prepared(), Canceller{20ms}.deadline())) == Errc::cancelled);
  CHECK(error_of(connect(silent.address, station.prepared(), Canceller{20ms}.deadline())) ==
        Errc::cancelled);
  CHECK(open_descriptors() == before);

  if (lacks(station.context, &DeviceCapabilities::endpoints)) return;
  std::thread connecting{
      [&] { must(connect(listener.address(), station.prepared(), within(patience))); }};
  CHECK(listener.accept(station.prepared(), within(patience)).has_value());
  connecting.join();
}

TEST_CASE("an endpoint of another kind is rejected on both sides with the reason", "[network]") {
  if (cannot_connect()) return;
  Station station;
  Actor actor;
  bool const is_soft = station.context.kind() == DeviceKind::soft;
  std::string const other = is_soft ? "card" : "soft";
  actor.say_kind(is_soft ? DeviceKind::card : DeviceKind::soft);

  SECTION("the listener is lend") {
    auto listener = must(Listener::open("127.0.0.1:0"));
    Result<network::Status> heard = Errc::timed_out;
    std::thread acting{[&] {
      auto const peer =
          must(network::greet_listener(dial(listener.address()), actor.greeting, within(patience)));
      heard = network::exchange_status(peer, {network::StatusCode::ready, {}}, within(patience));
    }};

    auto const error = error_of(listener.accept(station.prepared(), within(patience)));
    acting.join();

    CHECK(error == Errc::incompatible_peer);
    CHECK_THAT(error.message(), Catch::Contains("127.0.0.1:") && Catch::Contains(other));
    CHECK(must(heard).code == network::StatusCode::incompatible);
    CHECK_THAT(must(heard).text, Catch::Contains(other));
  }
  SECTION("the connecting side is lend") {
    auto acceptor = must(network::Acceptor::open(loopback_listener()));
    Result<network::Status> heard = Errc::timed_out;
    std::thread acting{[&] {
      auto const accepted = must(acceptor.accept(actor.greeting, within(patience)));
      heard =
          network::exchange_status(accepted, {network::StatusCode::ready, {}}, within(patience));
    }};

    auto const error = error_of(connect(acceptor.address(), station.prepared(), within(patience)));
    acting.join();

    CHECK(error == Errc::incompatible_peer);
    CHECK_THAT(error.message(), Catch::Contains(acceptor.address()));
    CHECK(must(heard).code == network::StatusCode::incompatible);
  }
}

TEST_CASE("a peer that hangs up is lost, and the error also says what did not fit", "[network]") {
  if (cannot_connect()) return;
  Station station;
  Actor actor;
  bool const is_soft = station.context.kind() == DeviceKind::soft;
  actor.say_kind(is_soft ? DeviceKind::card : DeviceKind::soft);
  auto listener = must(Listener::open("127.0.0.1:0"));
  std::thread acting{[&] {
    static_cast<void>(
        must(network::greet_listener(dial(listener.address()), actor.greeting, within(patience))));
  }};

  auto const error = error_of(listener.accept(station.prepared(), within(patience)));
  acting.join();

  CHECK(error == Errc::peer_lost);
  CHECK_THAT(error.message(), Catch::Contains("closed the connection") &&
                                  Catch::Contains("does not fit") &&
                                  Catch::Contains(is_soft ? "card" : "soft"));
}

TEST_CASE("a peer that cannot connect its end fails ours with its reason", "[network]") {
  if (cannot_connect()) return;
  auto const [code, expected] = GENERATE(table<network::StatusCode, Errc>({
      {network::StatusCode::incompatible, Errc::incompatible_peer},
      {network::StatusCode::failed, Errc::peer_lost},
  }));
  Station station;
  Actor actor;
  auto listener = must(Listener::open("127.0.0.1:0"));
  std::thread acting{[&, code = code] {
    auto const peer =
        must(network::greet_listener(dial(listener.address()), actor.greeting, within(patience)));
    static_cast<void>(
        must(network::exchange_status(peer, {code, "no stars tonight"}, within(patience))));
  }};

  auto const error = error_of(listener.accept(station.prepared(), within(patience)));
  acting.join();

  CHECK(error == expected);
  CHECK_THAT(error.message(), Catch::Contains("no stars tonight"));
}

TEST_CASE("a peer killed after it agreed is lost, and the listener goes on", "[network]") {
  if (cannot_connect()) return;
  auto listener = must(Listener::open("127.0.0.1:0"));
  std::optional<PeerProcess> victim;
  victim.emplace([address = listener.address()](Wire const& wire) {
    Actor actor;
    auto const peer =
        must(network::greet_listener(dial(address), actor.greeting, within(patience)));
    wire.say();
    return wire.hear() ? 0 : 1;  // killed here
  });
  PeerProcess heir{[address = listener.address()](Wire const& wire) {
    if (!wire.hear()) return 1;
    Station station;
    auto channel = must(connect(address, station.prepared(), within(patience)));
    return swap_words(station, channel, true) == "pong" ? 0 : 1;
  }};
  Station station;
  std::thread killing{[&] {
    if (victim->wire().hear()) victim->kill();
  }};

  auto const error = error_of(listener.accept(station.prepared(), within(patience)));
  killing.join();
  CHECK(error == Errc::peer_lost);
  CHECK(victim->exit_status() == 128 + SIGKILL);

  REQUIRE(heir.wire().say());
  auto channel = must(listener.accept(station.prepared(), within(patience)));
  check_messages(station, channel, false);
  CHECK(heir.exit_status() == 0);
}

TEST_CASE("a connecting peer killed while it waits does not end the wait for another",
          "[network]") {
  if (cannot_connect()) return;
  auto listener = must(Listener::open("127.0.0.1:0"));
  PeerProcess victim{[address = listener.address()](Wire const& wire) {
    auto const socket = dial(address);
    auto const greeting = good_greeting();
    say(socket, std::span{greeting}.first(100));
    wire.say();
    return wire.hear() ? 0 : 1;  // killed here
  }};
  PeerProcess good{[address = listener.address()](Wire const& wire) {
    if (!wire.hear()) return 1;
    Station station;
    auto channel = must(connect(address, station.prepared(), within(patience)));
    return swap_words(station, channel, true) == "pong" ? 0 : 1;
  }};
  REQUIRE(victim.wire().hear());
  victim.kill();
  CHECK(victim.exit_status() == 128 + SIGKILL);
  REQUIRE(good.wire().say());

  Station station;
  auto channel = must(listener.accept(station.prepared(), within(patience)));

  check_messages(station, channel, false);
  CHECK(good.exit_status() == 0);
}

TEST_CASE("arguments out of range are refused before anything is sent", "[network]") {
  Station station;
  auto const before = open_descriptors();

  CHECK(error_of(Listener::open("nonsense")) == Errc::invalid_argument);
  CHECK(error_of(listen("::1:0", station.prepared(), within(1s))) == Errc::invalid_argument);
  CHECK(error_of(connect("localhost", station.prepared(), within(1s))) == Errc::invalid_argument);
  CHECK(error_of(connect("127.0.0.1:0", station.prepared(), within(1s))) == Errc::invalid_argument);
  CHECK(open_descriptors() == before);
}

TEST_CASE("a prepared channel that was moved from is refused by either side", "[network]") {
  Station station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  auto prepared = station.prepared();
  CHECK_FALSE(prepared.is_used_up());
  auto const kept = std::move(prepared);
  CHECK_FALSE(kept.is_used_up());

  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested.
  CHECK(prepared.is_used_up());
  CHECK(error_of(listener.accept(std::move(prepared), within(patience))) == Errc::stale_handle);
  CHECK(error_of(listen("127.0.0.1:0", std::move(prepared), within(patience))) ==
        Errc::stale_handle);
  CHECK(error_of(connect(listener.address(), std::move(prepared), within(patience))) ==
        Errc::stale_handle);
  // NOLINTEND(bugprone-use-after-move)
}
