// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one thread connects any number of channels in its event loop, as connect() does one, and no
// listener makes it wait. Method: both sides in one thread on loopback; listeners that stop, hang
// up or send garbage after each frame of the exchange, played by hand.
#include <lend/network/connecting.hpp>
#include <lend/observe/metrics.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "network/raw_peers.hpp"
#include "network/station.hpp"
#include "support/device_environment.hpp"

using namespace lend;
using namespace lend::test;

namespace {

bool is_readable(int descriptor, Deadline deadline) {
  pollfd waiting{descriptor, POLLIN, 0};
  return must(network::wait_for({&waiting, 1}, deadline));
}

/// Advances until it is over, as an event loop does.
Result<Channel> finish(Connecting& connecting) {
  for (;;) {
    REQUIRE(is_readable(connecting.descriptor(), within(2 * patience)));
    auto channel = connecting.advance();
    if (!channel) return channel.error();
    if (channel.value()) return *std::move(channel.value());
  }
}

Connecting begin(std::string const& address, Station const& station,
                 Deadline deadline = within(patience), ExchangeOptions const& options = {}) {
  return must(Connecting::begin(address, station.prepared(), deadline, options));
}

/// Both sides of one channel, in turns.
std::pair<Channel, Channel> connect_by_turns(Listener& listener, Connecting& connecting) {
  std::optional<Channel> near;
  std::optional<Channel> far;
  auto const limit = within(patience);
  while (!near || !far) {
    std::array<pollfd, 2> waiting{pollfd{listener.descriptor(), POLLIN, 0},
                                  pollfd{connecting.descriptor(), POLLIN, 0}};
    REQUIRE(must(network::wait_for(waiting, limit)));
    if (waiting[0].revents != 0)
      if (auto accepted = must(listener.poll())) near.emplace(std::move(accepted->made));
    if (waiting[1].revents != 0)
      if (auto made = must(connecting.advance())) far.emplace(*std::move(made));
  }
  return {*std::move(near), *std::move(far)};
}

}  // namespace

TEST_CASE("one thread is both sides of a channel", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  bool const is_secret = GENERATE(false, true);
  if (is_secret && !has_secrets()) return;
  std::string const secret = is_secret ? right_secret : "";
  auto const address = GENERATE("127.0.0.1:0", "unix:@lend-connecting-test");
  auto listener = must(Listener::open(address, {.secret = secret}));
  must(listener.begin([&](Arrival const&) { return prepare_channel(station.domain, {}); }));
  auto const before = open_descriptors();
  {
    auto connecting = begin(listener.address(), station, within(patience), {.secret = secret});

    auto const [near, far] = connect_by_turns(listener, connecting);

    CHECK(near.peer() == far.endpoint());
    CHECK(far.peer() == near.endpoint());
    CHECK(connecting.descriptor() == -1);
    CHECK(error_of(connecting.advance()) == Errc::stale_handle);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a listener that starts later is found by a connecting that never waits", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto const address = loopback_listener().address;
  auto connecting = begin(address, station);
  for (int refusals = 0; refusals < 3; ++refusals) {
    REQUIRE(is_readable(connecting.descriptor(), within(patience)));
    CHECK_FALSE(must(connecting.advance()).has_value());
  }

  auto listener = must(Listener::open(address));
  must(listener.begin([&](Arrival const&) { return prepare_channel(station.domain, {}); }));
  auto const [near, far] = connect_by_turns(listener, connecting);

  CHECK(near.peer() == far.endpoint());
}

TEST_CASE("of a listener's addresses a connecting takes the first that answers", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  must(listener.begin([&](Arrival const&) { return prepare_channel(station.domain, {}); }));
  auto const refusing = loopback_listener().address;
  std::vector<std::string> const addresses{refusing, "[fe80::1]:1", listener.address()};
  auto connecting = must(Connecting::begin(addresses, station.prepared(), within(patience)));

  auto const [near, far] = connect_by_turns(listener, connecting);

  CHECK(near.peer() == far.endpoint());
}

TEST_CASE("a connecting whose addresses do not answer names each, and why", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto const first = loopback_listener().address, second = loopback_listener().address;
  auto const end = [&](std::vector<std::string> const& addresses) {
    auto connecting = Connecting::begin(addresses, station.prepared(), within(100ms));
    return connecting ? error_of(finish(connecting.value())) : connecting.error();
  };
  auto const late = end({first, second});
  CHECK(late == Errc::timed_out);
  CHECK(late.message().find(first + " or " + second) != std::string::npos);
  // What no time mends at one of them is no reason to give up; at each of them it is.
  CHECK(end({"[fe80::1]:1", first}) == Errc::timed_out);
  CHECK(end({"[fe80::1]:1", "[fe80::1]:2"}) != Errc::timed_out);
  CHECK(end({first, "localhost:1"}) == Errc::invalid_argument);
  CHECK(end({}) == Errc::invalid_argument);
}

TEST_CASE("a connecting that gave way to others comes again", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto listening = loopback_listener();
  auto const address = listening.address;
  auto connecting = begin(address, station);
  for (int times = 0; times < 2; ++times) {
    pollfd waiting{listening.fd.get(), POLLIN, 0};
    while (!must(network::wait_for({&waiting, 1}, within(1ms))))
      CHECK_FALSE(must(connecting.advance()).has_value());
    send_away(listening);
  }
  listening = {};

  auto listener = must(Listener::open(address));
  must(listener.begin([&](Arrival const&) { return prepare_channel(station.domain, {}); }));
  auto const [near, far] = connect_by_turns(listener, connecting);

  CHECK(near.peer() == far.endpoint());
}

TEST_CASE("by LEND_METRICS a listener counts its clients, by how they ended", "[network]") {
  if (cannot_connect()) return;
  Station const station;
  EnvironmentVariable const all{"LEND_METRICS", "1"};
  auto const counted = [](std::string_view result) {
    auto const text = metrics_text();
    auto const sample = "lend_listener_clients_total{result=\"" + std::string{result} + "\"} ";
    auto const at = text.find(sample);
    REQUIRE(at != std::string::npos);
    return std::stoi(text.substr(at + sample.size()));
  };
  auto const connected = counted("connected"), failed = counted("failed");
  auto const rejected = counted("rejected"), too_slow = counted("too_slow");
  {
    auto listener = must(Listener::open("127.0.0.1:0"));
    must(listener.begin([&](Arrival const& arrival) -> Result<PreparedChannel> {
      if (arrival.id == 1) return Error{Errc::denied, "not you"};
      return prepare_channel(station.domain, {});
    }));
    auto refused = begin(listener.address(), station);
    auto garbage = dial(listener.address());
    say(garbage, Bytes(100, std::byte{'l'}));
    Result<std::optional<Channel>> end = std::optional<Channel>{};
    while (end || counted("rejected") == rejected) {
      CHECK_FALSE(must(listener.poll()).has_value());
      if (end) end = refused.advance();
    }
    auto connecting = begin(listener.address(), station);
    static_cast<void>(connect_by_turns(listener, connecting));
  }
  CHECK(counted("connected") == connected + 1);
  CHECK(counted("failed") == failed + 1);
  CHECK(counted("rejected") == rejected + 1);
  CHECK(counted("too_slow") == too_slow);
}

TEST_CASE("a connecting whose time ends when it gave way learns why", "[network]") {
  Station const station;
  auto const listening = loopback_listener();
  Cancellation enough;
  auto connecting = begin(listening.address, station, within(patience).unless(enough));
  pollfd waiting{listening.fd.get(), POLLIN, 0};
  while (!must(network::wait_for({&waiting, 1}, within(1ms))))
    CHECK_FALSE(must(connecting.advance()).has_value());
  send_away(listening);
  REQUIRE(is_readable(connecting.descriptor(), within(patience)));

  enough.cancel();
  auto const error = error_of(connecting.advance());

  CHECK(error == Errc::cancelled);
  CHECK_THAT(error.message(), Catch::Contains("was slow"));
}

TEST_CASE("a connecting to no listener, or a silent one, ends at its deadline", "[network]") {
  Station const station;
  auto const gone = loopback_listener().address;
  auto const silent = loopback_listener();
  auto const before = open_descriptors();
  {
    auto to_none = begin(gone, station, within(20ms));
    auto to_silent = begin(silent.address, station, within(20ms));

    auto const nobody = error_of(finish(to_none));
    auto const no_answer = error_of(finish(to_silent));

    CHECK(nobody == Errc::timed_out);
    CHECK_THAT(nobody.message(), Catch::Contains(gone) && Catch::Contains("refused"));
    CHECK(no_answer == Errc::timed_out);
    CHECK_THAT(no_answer.message(), Catch::Contains(silent.address));
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("what a connecting cannot begin is said at once", "[network]") {
  Station const station;
  auto used = station.prepared();
  auto const moved = std::move(used);

  CHECK(error_of(Connecting::begin("localhost:80", station.prepared(), within(0ms))) ==
        Errc::invalid_argument);
  CHECK(error_of(Connecting::begin("127.0.0.1:0", station.prepared(), within(0ms))) ==
        Errc::invalid_argument);
  CHECK(error_of(Connecting::begin("127.0.0.1:80", std::move(used), within(0ms))) ==
        Errc::stale_handle);
  auto const error = error_of(
      Connecting::begin("127.0.0.1:80", station.prepared(), within(0ms), {.secret = "short"}));
  CHECK((error == Errc::invalid_argument || error == Errc::unsupported));  // without libsodium
}

TEST_CASE("a listener that hangs up or sends garbage after any frame ends a connecting",
          "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto const end = station.prepared();
  auto const whole =
      joined(introduction({end.endpoint()}),
             bytes_of(encode(network::Status{network::StatusCode::failed, "broke"})));
  auto const length = GENERATE(std::size_t{0}, network::hello_bytes / 2, network::hello_bytes,
                               introduction_bytes - 1, introduction_bytes, SIZE_MAX);
  bool const hangs_up = GENERATE(true, false);
  CAPTURE(length, hangs_up);
  auto const listening = loopback_listener();
  auto const before = open_descriptors();
  {
    auto connecting = begin(listening.address, station);
    network::Socket other;
    while (!other.fd) {
      other = must(network::take_connection(listening.fd.get()));
      if (!other.fd && is_readable(connecting.descriptor(), within(10ms)))
        CHECK_FALSE(must(connecting.advance()).has_value());
    }
    say(other, std::span{whole}.first(std::min(length, whole.size())));
    if (!hangs_up) say(other, Bytes(2000, std::byte{'l'}));
    ::shutdown(other.fd.get(), SHUT_WR);

    auto const error = error_of(finish(connecting));

    CHECK((error == Errc::peer_lost || error == Errc::incompatible_peer));
    CHECK_THAT(error.message(), Catch::Contains(listening.address));
    CHECK(connecting.descriptor() == -1);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a connecting that is given up in the middle leaves nothing on either side",
          "[network]") {
  if (cannot_connect()) return;
  Station const station;
  auto listener = must(Listener::open("127.0.0.1:0"));
  must(listener.begin([&](Arrival const&) { return prepare_channel(station.domain, {}); }));
  auto const before = open_descriptors();
  for (int steps = 0; steps < 3; ++steps) {
    CAPTURE(steps);
    {
      auto connecting = begin(listener.address(), station);
      for (int i = 0; i < steps; ++i) {
        while (!is_readable(connecting.descriptor(), within(1ms)))
          CHECK_FALSE(must(listener.poll()).has_value());
        CHECK_FALSE(must(connecting.advance()).has_value());
      }
    }
    for (auto const limit = within(patience);
         open_descriptors() != before && !limit.has_passed();) {
      static_cast<void>(is_readable(listener.descriptor(), within(10ms)));
      CHECK_FALSE(must(listener.poll()).has_value());
    }
    CHECK(open_descriptors() == before);
  }
}

TEST_CASE("a connecting with another secret learns so", "[network]") {
  if (!has_secrets()) return;
  Station const station;
  auto listener = must(Listener::open("127.0.0.1:0", {.secret = right_secret}));
  must(listener.begin([&](Arrival const&) { return prepare_channel(station.domain, {}); }));
  auto connecting = begin(listener.address(), station, within(patience), {.secret = wrong_secret});

  Result<std::optional<Channel>> last = std::optional<Channel>{};
  while (last) {
    CHECK_FALSE(must(listener.poll()).has_value());
    if (is_readable(connecting.descriptor(), within(10ms))) last = connecting.advance();
  }

  CHECK(last.error() == Errc::incompatible_peer);
  CHECK_THAT(last.error().message(), Catch::Contains("another secret"));
}
