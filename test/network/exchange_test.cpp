// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever a listener says, the connecting side ends in time with a reason. Method: socket
// pairs whose other end has said all it will ever say.
#include <network/exchange/exchange.hpp>

#include <atomic>
#include <random>

#include "network/raw_peers.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;
using lend::base::UniqueFd;

namespace {

/// Greets a listener that says `bytes` and then hangs up.
Result<network::Peer> greet_one_that_says(std::span<std::byte const> bytes) {
  auto [ours, theirs] = socket_pair();
  say(theirs, bytes);
  ::shutdown(theirs.fd.get(), SHUT_WR);
  return network::greet_listener(std::move(ours), greeting_with(1), within(patience));
}

Error error_from(Bytes const& bytes) {
  return error_of(greet_one_that_says(bytes));
}

}  // namespace

TEST_CASE("the connecting side greets, is greeted and agrees", "[network]") {
  auto [ours, theirs] = socket_pair();
  say(theirs, good_greeting(2));

  auto const peer =
      must(network::greet_listener(std::move(ours), {endpoint_of(1), "a note"}, within(patience)));

  CHECK(peer.greeting.endpoint == endpoint_of(2));
  auto const said = hear(theirs, introduction_bytes + network::status_bytes);
  CHECK(greeting_in(said).endpoint == endpoint_of(1));
  CHECK(greeting_in(said).note == "a note");
  auto const status = must(frame_in(std::span{said}.subspan(introduction_bytes)).status());
  CHECK(status.code == network::StatusCode::agreed);
}

TEST_CASE("a listener that is not a peer is refused with a reason", "[network]") {
  auto const garbage = error_from(bytes_of("220 mail.example ESMTP\r\n"));
  CHECK(garbage == Errc::incompatible_peer);
  CHECK_THAT(garbage.message(), Catch::Contains("one end") && Catch::Contains("does not speak"));

  auto const secret = error_from(secret_hello());
  CHECK(secret == Errc::incompatible_peer);
  CHECK_THAT(secret.message(), Catch::Contains("has a secret and the other side none"));

  CHECK_THAT(error_from(bytes_of(encode(greeting_with(2)))).message(),
             Catch::Contains("out of turn"));

  auto const endpoint = error_from(damaged_greeting());
  CHECK(endpoint == Errc::incompatible_peer);
  CHECK_THAT(endpoint.message(), Catch::Contains("bad endpoint"));
}

TEST_CASE("sides of two versions of the exchange each name both", "[network]") {
  auto old_hello = secret_hello();
  old_hello[8] = std::byte{network::exchange_version - 1};
  auto const both = Catch::Contains("speaks version 4 of the exchange, this side 5");
  CHECK_THAT(error_from(old_hello).message(), both);

  auto acceptor = must(network::Acceptor::open(loopback_listener()));
  auto const old_peer = dial(acceptor.address());
  say(old_peer, old_hello);
  std::string complaint;
  while (complaint.find("version") == std::string::npos)
    complaint = error_of(acceptor.accept(greeting_with(1), within(20ms))).message();
  CHECK_THAT(complaint, both);
  // Its own reader looks no further than the header, which begins as in every version.
  auto const told = hear(old_peer);
  CHECK(told.at(8) == std::byte{network::exchange_version});
  CHECK_THAT(must(frame_in(told).status()).text, both);
}

TEST_CASE("a peer that sends back what it received is rejected", "[network]") {
  auto const error = error_from(good_greeting(1));

  CHECK(error == Errc::incompatible_peer);
  CHECK_THAT(error.message(), Catch::Contains("sent back what it received"));
}

TEST_CASE("a refusal reaches the connecting side with its reason", "[network]") {
  auto const refusal = [](network::StatusCode code) {
    return error_from(bytes_of(encode(network::Status{code, "has green hair"})));
  };

  CHECK(refusal(network::StatusCode::wrong_secret) == Errc::incompatible_peer);
  CHECK(refusal(network::StatusCode::foreign) == Errc::incompatible_peer);
  CHECK(refusal(network::StatusCode::too_slow) == Errc::peer_lost);
  CHECK(refusal(network::StatusCode::failed) == Errc::peer_lost);
  CHECK_THAT(refusal(network::StatusCode::foreign).message(), Catch::Contains("has green hair"));
}

TEST_CASE("a side that gave way to others comes again", "[network]") {
  auto listening = loopback_listener();
  auto const address = listening.address;
  Result<network::Peer> met = Errc::timed_out;
  std::thread coming{
      [&] { met = network::greet(address, greeting_with(1), within(patience), {}); }};
  send_away(listening);
  send_away(listening);

  auto acceptor = must(network::Acceptor::open(std::move(listening)));
  auto const accepted = must(acceptor.accept(greeting_with(2), within(patience)));
  coming.join();

  CHECK(accepted.greeting.endpoint == endpoint_of(1));
  CHECK(must(std::move(met)).greeting.endpoint == endpoint_of(2));
}

TEST_CASE("the side that refuses says why before it hangs up", "[network]") {
  auto [ours, theirs] = socket_pair();
  say(theirs, secret_hello());

  static_cast<void>(
      error_of(network::greet_listener(std::move(ours), greeting_with(1), within(patience))));

  auto const said = hear(theirs);
  REQUIRE(said.size() == network::hello_bytes + network::status_bytes);
  auto const status = must(frame_in(std::span{said}.subspan(network::hello_bytes)).status());
  CHECK(status.code == network::StatusCode::wrong_secret);
}

TEST_CASE("a listener that hangs up at any byte is a lost peer", "[network]") {
  auto const before = open_descriptors();
  auto const greeting = good_greeting();
  for (std::size_t length = 0; length < greeting.size(); ++length) {
    CAPTURE(length);
    auto const error = error_of(greet_one_that_says(std::span{greeting}.first(length)));
    CHECK(error == Errc::peer_lost);
    CHECK_THAT(error.message(), Catch::Contains("one end"));
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a silent listener ends the exchange at the deadline", "[network]") {
  auto [ours, theirs] = socket_pair();

  auto const error =
      error_of(network::greet_listener(std::move(ours), greeting_with(1), within(20ms)));

  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains("one end"));
}

TEST_CASE("a listener that drips bytes ends the exchange at the deadline", "[network]") {
  auto [ours, theirs] = socket_pair();
  std::atomic<bool> over{false};
  std::thread dripping{[&, &their_end = theirs] {
    auto const greeting = good_greeting();
    for (std::size_t at = 0; at < greeting.size() && !over.load(); ++at) {
      say(their_end, std::span{greeting}.subspan(at, 1));
      std::this_thread::sleep_for(5ms);
    }
  }};

  auto const error =
      error_of(network::greet_listener(std::move(ours), greeting_with(1), within(50ms)));

  over.store(true);
  dripping.join();
  CHECK(error == Errc::timed_out);
}

TEST_CASE("both sides are connected when both are ready", "[network]") {
  auto [ours, theirs] = socket_pair();
  network::Peer const peer{.socket = std::move(ours)};
  say(theirs, bytes_of(encode(network::Status{network::StatusCode::ready, {}})));

  auto const status =
      must(network::exchange_status(peer, {network::StatusCode::ready, {}}, within(patience)));

  CHECK(status.code == network::StatusCode::ready);
  CHECK(must(frame_in(hear(theirs, network::status_bytes)).status()).code ==
        network::StatusCode::ready);
}

TEST_CASE("the status of a peer that failed and hung up arrives with its reason", "[network]") {
  auto [ours, theirs] = socket_pair();
  network::Peer const peer{.socket = std::move(ours)};
  say(theirs, bytes_of(encode(network::Status{network::StatusCode::failed, "out of queue pairs"})));
  theirs.fd = UniqueFd{};

  auto const status =
      must(network::exchange_status(peer, {network::StatusCode::ready, {}}, within(patience)));

  CHECK(status.code == network::StatusCode::failed);
  CHECK(status.text == "out of queue pairs");
}

TEST_CASE("a peer that is gone, silent or confused after it agreed is an error", "[network]") {
  network::Status const ready{network::StatusCode::ready, {}};
  auto [ours, theirs] = socket_pair();
  network::Peer const peer{.socket = std::move(ours)};

  SECTION("silent") {
    CHECK(error_of(network::exchange_status(peer, ready, within(20ms))) == Errc::timed_out);
  }
  SECTION("gone") {
    theirs.fd = UniqueFd{};
    CHECK(error_of(network::exchange_status(peer, ready, within(patience))) == Errc::peer_lost);
  }
  SECTION("gone in the middle of its status") {
    auto const status = agreed();
    say(theirs, std::span{status}.first(20));
    theirs.fd = UniqueFd{};
    CHECK(error_of(network::exchange_status(peer, ready, within(patience))) == Errc::peer_lost);
  }
  SECTION("ready, but gone before it heard the same") {
    say(theirs, bytes_of(encode(ready)));
    theirs.fd = UniqueFd{};
    CHECK(error_of(network::exchange_status(peer, ready, within(patience))) == Errc::peer_lost);
  }
  SECTION("agreeing again") {
    say(theirs, agreed());
    CHECK(error_of(network::exchange_status(peer, ready, within(patience))) ==
          Errc::incompatible_peer);
  }
  SECTION("greeting again") {
    say(theirs, good_greeting());
    CHECK(error_of(network::exchange_status(peer, ready, within(patience))) ==
          Errc::incompatible_peer);
  }
}

TEST_CASE("random answers end the exchange with an endpoint or an error", "[network]") {
  auto const before = open_descriptors();
  for (auto const seed : seeds(10)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    for (int round = 0; round < 200; ++round) {
      auto bytes = joined(good_greeting(), agreed());
      for (auto changes = random() % 3; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      bytes.resize(random() % (bytes.size() + 1));
      auto const greeted = greet_one_that_says(bytes);
      if (greeted) continue;
      auto const code = greeted.error().code();
      CHECK((code == Errc::incompatible_peer || code == Errc::peer_lost));
    }
  }
  CHECK(open_descriptors() == before);
}
