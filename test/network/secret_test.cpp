// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: with a secret nobody who does not know it learns, says or changes anything. Method: both
// sides of lend with somebody in between who hears every byte and may change it; and liars by hand.
#include <network/exchange/acceptor.hpp>

#include <algorithm>
#include <functional>
#include <optional>

#include "network/raw_peers.hpp"

using namespace lend;
using namespace lend::test;

namespace {

network::Secret secret_of(std::string_view text) {
  return must(network::Secret::of(text));
}

/// What became of both sides; empty for one that succeeded.
struct Outcome {
  std::optional<Error> connecting;
  std::optional<Error> listening;
  Bytes to_listener;
  Bytes to_connecting;
};

/// May change the bytes that are to be passed on; `at` is how many came before them.
using Change = std::function<void(Bytes& bytes, std::size_t at)>;
void nothing(Bytes& /*bytes*/, std::size_t /*at*/) {}

/// Flips a bit of the byte at `position`.
Change flip(std::size_t position) {
  return [position](Bytes& bytes, std::size_t at) {
    if (position >= at && position < at + bytes.size()) bytes[position - at] ^= std::byte{1};
  };
}

/// Passes bytes from one connection to the other until either ends.
class Between {
 public:
  Between(std::string listener, Change to_listener, Change to_connecting)
      : changes_{std::move(to_listener), std::move(to_connecting)},
        passing_{[this, listener = std::move(listener)] { pass(listener); }} {}
  Between(Between const&) = delete;
  Between& operator=(Between const&) = delete;
  ~Between() { end(); }

  [[nodiscard]] std::string const& address() const noexcept { return listening_.address; }
  void end() {
    if (passing_.joinable()) passing_.join();
  }
  Bytes heard[2];

 private:
  void pass(std::string const& listener) {
    pollfd coming{listening_.fd.get(), POLLIN, 0};
    if (!must(network::wait_for({&coming, 1}, within(patience)))) return;
    network::Socket ends[2] = {must(network::take_connection(listening_.fd.get())), dial(listener)};
    for (bool is_open = true; is_open;) {
      pollfd both[2] = {{ends[0].fd.get(), POLLIN, 0}, {ends[1].fd.get(), POLLIN, 0}};
      if (!must(network::wait_for(both, within(patience)))) return;
      for (std::size_t from = 0; from < 2; ++from)
        if (both[from].revents != 0) is_open = is_open && pass_on(ends[from], ends[1 - from], from);
    }
  }
  bool pass_on(network::Socket const& from, network::Socket const& to, std::size_t direction) {
    Bytes bytes(4096);
    auto const got = ::recv(from.fd.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    bytes.resize(static_cast<std::size_t>(got));
    auto const before = heard[direction].size();
    heard[direction].insert(heard[direction].end(), bytes.begin(), bytes.end());
    changes_[direction](bytes, before);
    say(to, bytes);
    return true;
  }

  network::Socket listening_ = loopback_listener();
  Change changes_[2];
  std::thread passing_;
};

network::Status ready() {
  return {network::StatusCode::ready, {}};
}

/// Why this side does not get as far as being ready together with its peer.
std::optional<Error> what_became_of(Result<network::Peer> const& peer) {
  if (!peer) return peer.error();
  auto const status = network::exchange_status(peer.value(), ready(), within(patience));
  if (!status) return status.error();
  if (status.value().code == network::StatusCode::ready) return std::nullopt;
  return Error{Errc::peer_lost, status.value().text};
}

/// A whole exchange, up to both sides' readiness, with somebody in between.
Outcome exchange(std::string_view here, std::string_view there, Change to_listener = nothing,
                 Change to_connecting = nothing) {
  auto acceptor = must(network::Acceptor::open(loopback_listener(), {}, secret_of(here)));
  Between between{acceptor.address(), std::move(to_listener), std::move(to_connecting)};
  Outcome outcome;
  Cancellation over;
  std::thread connecting{[&] {
    auto const peer = network::greet_listener(dial(between.address()), greeting_with(2),
                                              within(patience), secret_of(there));
    outcome.connecting = what_became_of(peer);
    if (outcome.connecting) over.cancel();
  }};
  outcome.listening =
      what_became_of(acceptor.accept(greeting_with(1), within(patience).unless(over)));
  connecting.join();
  between.end();
  outcome.to_listener = between.heard[0];
  outcome.to_connecting = between.heard[1];
  return outcome;
}

bool contains(Bytes const& bytes, Bytes const& part) {
  return std::search(bytes.begin(), bytes.end(), part.begin(), part.end()) != bytes.end();
}

/// The endpoint of greeting_with(number), as it would travel.
Bytes endpoint_bytes(std::uint32_t number) {
  auto const bytes = endpoint_of(number).encode();
  return {bytes.begin(), bytes.end()};
}

constexpr std::size_t listener_says = network::hello_bytes + network::proof_frame_bytes;

}  // namespace

TEST_CASE("who hears all of an exchange with a secret learns neither it nor an endpoint",
          "[network]") {
  if (!has_secrets()) return;
  auto const outcome = exchange(right_secret, right_secret);

  REQUIRE_FALSE(outcome.connecting.has_value());
  REQUIRE_FALSE(outcome.listening.has_value());
  auto const all = joined(outcome.to_listener, outcome.to_connecting);
  CHECK_FALSE(contains(all, bytes_of(std::string_view{right_secret})));
  CHECK_FALSE(contains(all, endpoint_bytes(1)));
  CHECK_FALSE(contains(all, endpoint_bytes(2)));
  auto const in_clear = exchange("", "");
  CHECK(contains(in_clear.to_listener, endpoint_bytes(2)));
}

TEST_CASE("two exchanges with one secret have no proof and no sealed frame in common",
          "[network]") {
  if (!has_secrets()) return;
  auto const one = exchange(right_secret, right_secret);
  auto const other = exchange(right_secret, right_secret);

  auto const rest = [](Bytes const& said, std::size_t from) {
    return Bytes(said.begin() + static_cast<std::ptrdiff_t>(from + network::frame_header_bytes),
                 said.begin() + static_cast<std::ptrdiff_t>(from + network::proof_frame_bytes));
  };
  for (auto const at : {network::hello_bytes, listener_says}) {
    CHECK(rest(one.to_listener, at) != rest(other.to_listener, at));
    CHECK(rest(one.to_connecting, at) != rest(other.to_connecting, at));
    CHECK(rest(one.to_connecting, at) != rest(one.to_listener, at));
  }
}

TEST_CASE("sides whose secrets differ say so, and nothing is sent that needs one", "[network]") {
  if (!has_secrets()) return;
  auto const [here, there, words] = GENERATE(table<char const*, char const*, char const*>({
      {right_secret, wrong_secret, "another secret"},
      {right_secret, "", "has no secret and the other side one"},
      {"", right_secret, "has a secret and the other side none"},
  }));
  auto const outcome = exchange(here, there);

  REQUIRE(outcome.connecting.has_value());
  CHECK(*outcome.connecting == Errc::incompatible_peer);
  CHECK_THAT(outcome.connecting->message(), Catch::Contains(words));
  CHECK(outcome.listening.has_value());
  CHECK(outcome.to_listener.size() <= network::hello_bytes + network::status_bytes);
}

TEST_CASE("whatever byte of a sealed exchange is changed, neither side connects", "[network]") {
  if (!has_secrets()) return;
  auto const whole = exchange(right_secret, right_secret);
  REQUIRE_FALSE(whole.connecting.has_value());
  SECTION("on the way to the listener") {
    // Each byte of hello and proof; of what is sealed, header, payload and tag.
    for (std::size_t at = 0; at < whole.to_listener.size(); at += at < 100 ? 9 : 37) {
      CAPTURE(at);
      auto const outcome = exchange(right_secret, right_secret, flip(at));
      CHECK(outcome.listening.has_value());
    }
  }
  SECTION("on the way back") {
    for (std::size_t at = 0; at < whole.to_connecting.size(); at += at < 100 ? 9 : 37) {
      CAPTURE(at);
      CHECK(exchange(right_secret, right_secret, nothing, flip(at)).connecting.has_value());
    }
  }
}

TEST_CASE("a stranger who sends a side's own proof back has proved nothing", "[network]") {
  if (!has_secrets()) return;
  SECTION("to a listener") {
    auto acceptor = must(network::Acceptor::open(loopback_listener(), {}, secret_of(right_secret)));
    auto const stranger = dial(acceptor.address());
    say(stranger, secret_hello());
    std::thread answering{[&] {
      auto const said = hear(stranger, listener_says);
      say(stranger, std::span{said}.subspan(network::hello_bytes));
      ::shutdown(stranger.fd.get(), SHUT_WR);
      static_cast<void>(hear(stranger));
    }};
    std::string complaint;
    while (complaint.find("another secret") == std::string::npos)
      complaint = error_of(acceptor.accept(greeting_with(1), within(20ms))).message();
    answering.join();
  }
  SECTION("to a connecting side") {
    auto [ours, theirs] = socket_pair();
    // Having no proof to send back, for a listener proves itself first, it sends back the hello.
    std::thread answering{
        [&, &their_end = theirs] { say(their_end, hear(their_end, network::hello_bytes)); }};
    auto const error = error_of(network::greet_listener(std::move(ours), greeting_with(1),
                                                        within(patience), secret_of(right_secret)));
    answering.join();
    CHECK(error == Errc::incompatible_peer);
    CHECK_THAT(error.message(), Catch::Contains("sent back what it received"));
    CHECK(hear(theirs).size() <= network::status_bytes);
  }
}

TEST_CASE("what a peer once said does not let another in", "[network]") {
  if (!has_secrets()) return;
  auto const recorded = exchange(right_secret, right_secret);
  REQUIRE_FALSE(recorded.listening.has_value());
  auto acceptor = must(network::Acceptor::open(loopback_listener(), {}, secret_of(right_secret)));
  auto const stranger = dial(acceptor.address());
  say(stranger, recorded.to_listener);

  std::string complaint;
  while (complaint.find("another secret") == std::string::npos)
    complaint = error_of(acceptor.accept(greeting_with(1), within(20ms))).message();

  CHECK_FALSE(contains(hear(stranger), endpoint_bytes(1)));
}

TEST_CASE("who learns the secret after an exchange opens nothing of what it recorded",
          "[network]") {
  if (!has_secrets()) return;
  auto const recorded = exchange(right_secret, right_secret);
  REQUIRE_FALSE(recorded.listening.has_value());
  auto const secret = secret_of(right_secret);
  auto const first_of = [](Bytes const& said) {
    return std::span{said}.first(network::hello_bytes);
  };
  auto const proof_in = [](Bytes const& said) {
    return frame_in(std::span{said}.subspan(network::hello_bytes)).proof();
  };
  // All that went over the wire, and the secret; no private key.
  network::KeyPair const own{secret};
  for (auto const& said : {recorded.to_listener, recorded.to_connecting}) {
    auto const guess =
        secret.sealing(network::Side::connecting, own, must(frame_in(first_of(said)).hello()).key,
                       first_of(recorded.to_listener), first_of(recorded.to_connecting));
    CHECK_FALSE(guess->is_proved_by(proof_in(recorded.to_connecting)));
    CHECK(guess->proof() != proof_in(recorded.to_listener));
  }
}

TEST_CASE("two exchanges with one secret have no key in common, and those without have none",
          "[network]") {
  auto const key_of = [](Bytes const& said) { return must(frame_in(said).hello()).key; };
  auto const in_clear = exchange("", "");
  CHECK(key_of(in_clear.to_listener) == network::PublicKey{});
  CHECK(key_of(in_clear.to_connecting) == network::PublicKey{});
  if (!has_secrets()) return;
  auto const one = exchange(right_secret, right_secret);
  auto const other = exchange(right_secret, right_secret);
  CHECK(key_of(one.to_listener) != key_of(other.to_listener));
  CHECK(key_of(one.to_connecting) != key_of(other.to_connecting));
  CHECK(key_of(one.to_connecting) != key_of(one.to_listener));
}

TEST_CASE("a key that makes the same of every other is refused by either side", "[network]") {
  if (!has_secrets()) return;
  auto const bad_hello = secret_hello(network::PublicKey{});
  auto acceptor = must(network::Acceptor::open(loopback_listener(), {}, secret_of(right_secret)));
  auto const stranger = dial(acceptor.address());
  say(stranger, bad_hello);
  std::string complaint;
  while (complaint.find("public key that is none") == std::string::npos)
    complaint = error_of(acceptor.accept(greeting_with(1), within(20ms))).message();
  CHECK(hear(stranger).size() == network::status_bytes);

  auto [ours, theirs] = socket_pair();
  say(theirs, bad_hello);
  auto const error = error_of(network::greet_listener(std::move(ours), greeting_with(1),
                                                      within(patience), secret_of(right_secret)));
  CHECK(error == Errc::incompatible_peer);
  CHECK_THAT(error.message(), Catch::Contains("public key that is none"));
}

TEST_CASE("a sealed frame is taken once, in its turn, and as its kind", "[network]") {
  if (!has_secrets()) return;
  auto const secret = secret_of(right_secret);
  auto const hello = bytes_of(encode(network::Hello{}));
  network::KeyPair const here{secret};
  network::KeyPair const there{secret};
  auto const sender =
      secret.sealing(network::Side::connecting, here, there.public_key(), hello, hello);
  auto const receiver =
      secret.sealing(network::Side::listening, there, here.public_key(), hello, hello);
  auto const first = bytes_of(encode(ready(), sender.get()));
  auto const second = bytes_of(encode(ready(), sender.get()));
  network::FrameReader reader;
  reader.open_by(*receiver);
  auto const take = [&](std::span<std::byte const> bytes) -> Result<void> {
    reader.restart();
    while (!bytes.empty()) {
      auto const room = reader.room();
      std::copy_n(bytes.begin(), room.size(), room.begin());
      LEND_TRYV(reader.took(room.size()));
      bytes = bytes.subspan(room.size());
    }
    return success();
  };

  SECTION("in turn") {
    must(take(first));
    must(take(second));
    CHECK(must(reader.status()).code == network::StatusCode::ready);
  }
  SECTION("out of turn") {
    CHECK(error_of(take(second)) == Errc::incompatible_peer);
  }
  SECTION("twice") {
    must(take(first));
    auto const error = error_of(take(first));
    CHECK(error == Errc::incompatible_peer);
    CHECK_THAT(error.message(), Catch::Contains("changed, repeated or left out"));
    CHECK_FALSE(reader.complete());
    CHECK(reader.room().empty());
  }
  SECTION("in the clear") {
    CHECK(error_of(take(bytes_of(encode(ready())))) == Errc::incompatible_peer);
  }
  SECTION("sent back to its sender") {
    reader.open_by(*sender);
    CHECK(error_of(take(first)) == Errc::incompatible_peer);
  }
  SECTION("under another kind") {
    Bytes payload(100);
    std::array<std::byte, network::tag_bytes> tag{};
    sender->seal(1, payload, tag);
    CHECK_FALSE(receiver->open(2, payload, tag));
  }
}
