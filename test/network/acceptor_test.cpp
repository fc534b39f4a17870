// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: connections that are no peer's cannot crash, hang or join a listener, nor keep a peer out.
// Method: raw connections on loopback that send anything; a good peer in a thread.
#include <network/exchange/acceptor.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <latch>
#include <memory>
#include <optional>
#include <random>

#include "network/raw_peers.hpp"
#include "support/each_failure.hpp"
#include "support/few_descriptors.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// Accepts until a short deadline, which no good peer will meet.
Error rejection_by(network::Acceptor& acceptor) {
  return error_of(acceptor.accept(greeting_with(1), within(10ms)));
}

/// Accepts until a connection was rejected and none is left; the error that says why.
Error rejection_of_all(network::Acceptor& acceptor) {
  for (auto const limit = within(patience); !limit.has_passed();) {
    auto const error = rejection_by(acceptor);
    bool const complained = error.message().find("last rejected") != std::string::npos;
    if (complained && acceptor.pending() == 0) return error;
  }
  FAIL("not all connections were rejected");
  return {};
}

/// Listens, lets a connection send `bytes` and hang up, and returns what the listener says of it.
std::string complaint_about(std::span<std::byte const> bytes) {
  auto acceptor = must(network::Acceptor::open(loopback_listener()));
  auto const raw = dial(acceptor.address());
  say(raw, bytes);
  ::shutdown(raw.fd.get(), SHUT_WR);
  auto const error = rejection_of_all(acceptor);
  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains(acceptor.address()));
  return error.message();
}

/// Silent connections give way to newcomers at once, so that no test waits for time to pass.
constexpr network::AdmissionLimits impatient{.pending_max = 4, .crowded_patience = 0ms};

}  // namespace

TEST_CASE("a good peer is accepted and both know each other's endpoint", "[network]") {
  auto const address = GENERATE("127.0.0.1:0", "localhost:0");
  auto acceptor = must(network::Acceptor::open(loopback_listener(address)));
  GoodPeer peer{acceptor.address(), 7};

  auto const accepted = must(acceptor.accept(greeting_with(3), within(patience)));

  CHECK(accepted.greeting.endpoint == endpoint_of(7));
  CHECK(peer.greeted() == endpoint_of(3));
  CHECK(acceptor.pending() == 0);
}

TEST_CASE("a listener on IPv6 admits a good peer where the host has IPv6", "[network]") {
  auto listening =
      network::open_listening(must(network::resolve(must(network::parse_address("[::1]:0")))));
  if (!listening) {
    WARN("skipped: no IPv6 loopback here: " << listening.error().message());
    return;
  }
  auto acceptor = must(network::Acceptor::open(std::move(listening).value()));
  CHECK(acceptor.address().starts_with("[::1]:"));
  GoodPeer peer{acceptor.address()};

  CHECK(must(acceptor.accept(greeting_with(3), within(patience))).greeting.endpoint ==
        endpoint_of(2));
}

TEST_CASE("nobody came is said at the deadline", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener()));

  auto const error = rejection_by(acceptor);

  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains("no peer connected to " + acceptor.address()));
}

TEST_CASE("the deadline's error says why the last connection was rejected", "[network]") {
  auto foreign = good_greeting();
  foreign[8] = std::byte{200};

  CHECK_THAT(complaint_about(bytes_of("GET / HTTP/1.1\r\n\r\n")),
             Catch::Contains("does not speak"));
  CHECK_THAT(complaint_about(foreign), Catch::Contains("version 200"));
  CHECK_THAT(complaint_about(secret_hello()),
             Catch::Contains("has a secret and the other side none"));
  CHECK_THAT(complaint_about(damaged_greeting()), Catch::Contains("bad endpoint"));
  CHECK_THAT(complaint_about(agreed()), Catch::Contains("out of turn"));
  CHECK_THAT(complaint_about({}), Catch::Contains("closed the connection"));
}

TEST_CASE("a connection is sent the reason for its rejection", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener()));
  auto foreign = good_greeting();
  foreign[8] = std::byte{200};
  auto const old_timer = dial(acceptor.address());
  say(old_timer, foreign);
  static_cast<void>(rejection_of_all(acceptor));
  auto const spy = dial(acceptor.address());
  say(spy, secret_hello());
  static_cast<void>(rejection_of_all(acceptor));

  CHECK(must(frame_in(hear(old_timer)).status()).code == network::StatusCode::foreign);
  auto const to_spy = hear(spy);
  CHECK(to_spy.size() == network::status_bytes);
  CHECK(must(frame_in(to_spy).status()).code == network::StatusCode::wrong_secret);
}

TEST_CASE("a connection that ends after any byte leaves nothing behind", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener()));
  auto const before = open_descriptors();
  auto const greeting = good_greeting();
  for (std::size_t length = 0; length <= greeting.size(); ++length) {
    auto const raw = dial(acceptor.address());
    say(raw, std::span{greeting}.first(length));
  }
  GoodPeer peer{acceptor.address(), 5};

  auto const deadline = within(patience);
  auto accepted = must(acceptor.accept(greeting_with(1), deadline));

  CHECK(accepted.greeting.endpoint == endpoint_of(5));
  CHECK(peer.greeted() == endpoint_of(1));
  accepted.socket.fd = base::UniqueFd{};
  CHECK(open_descriptors() == before);
}

TEST_CASE("a peer that greets well and never agrees gives way to the next", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener(), {.patience = 50ms}));
  auto const mute = dial(acceptor.address());
  say(mute, good_greeting(8));
  auto const greeted_too = dial(acceptor.address());
  say(greeted_too, good_greeting(9));
  say(greeted_too, agreed());

  auto const accepted = must(acceptor.accept(greeting_with(1), within(patience)));

  CHECK(accepted.greeting.endpoint == endpoint_of(9));
  CHECK(greeting_in(hear(mute)).endpoint == endpoint_of(1));
}

TEST_CASE("a peer that was sent an endpoint is rejected when the wait for it fails", "[network]") {
  auto acceptor = must(network::Acceptor::open(
      loopback_listener(), {.patience = patience, .crowded_patience = patience}));
  auto const first = dial(acceptor.address());
  say(first, good_greeting(8));
  auto const there =
      must(network::resolve(must(network::parse_address(acceptor.address())))).front();
  network::Socket const second{base::UniqueFd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)},
                               "the second"};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  Bytes heard;
  std::latch failed{1};  // UBSan asks of an ending thread's state by a pipe: descriptors first
  std::thread coming{[&] {
    heard = hear(first, introduction_bytes);
    int const lowest_free = ::dup(STDERR_FILENO);
    ::close(lowest_free);
    rlimit const none{static_cast<rlim_t>(lowest_free), before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    static_cast<void>(::connect(second.fd.get(), there.native(), there.length));
    say(second, good_greeting(9));
    say(second, agreed());
    failed.wait();
  }};
  CHECK(error_of(acceptor.accept(greeting_with(1), within(patience))) == Errc::exhausted);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  failed.count_down();
  coming.join();
  REQUIRE(acceptor.pending() == 0);

  auto const sent = joined(heard, hear(first));
  say(first, agreed());
  auto const accepted = must(acceptor.accept(greeting_with(2), within(patience)));

  CHECK(greeting_in(sent).endpoint == endpoint_of(1));
  auto const status = must(frame_in(std::span{sent}.subspan(introduction_bytes)).status());
  CHECK(status.code == network::StatusCode::failed);
  CHECK_THAT(status.text, Catch::Contains("accept failed"));
  CHECK(accepted.greeting.endpoint == endpoint_of(9));
  CHECK(greeting_in(hear(second, introduction_bytes)).endpoint == endpoint_of(2));
}

TEST_CASE("peers that come together are served one after the other", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener(), {.pending_max = 3}));
  constexpr unsigned count = 8;
  std::vector<std::unique_ptr<GoodPeer>> peers;
  for (unsigned i = 0; i < count; ++i)
    peers.push_back(std::make_unique<GoodPeer>(acceptor.address(), 100 + i));

  std::vector<bool> seen(count, false);
  std::vector<Endpoint> ours(count);
  for (unsigned i = 0; i < count; ++i) {
    auto const accepted = must(acceptor.accept(greeting_with(1 + i), within(patience)));
    auto const who = accepted.greeting.endpoint.queue_pair_number.value() - 100;
    REQUIRE(who < count);
    CHECK_FALSE(seen[who]);
    seen[who] = true;
    ours[who] = endpoint_of(1 + i);
  }

  for (unsigned i = 0; i < count; ++i) {
    CAPTURE(peers[i]->wrong());
    CHECK(peers[i]->greeted() == ours[i]);
  }
}

TEST_CASE("a good peer behind twenty bad ones is served", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener(), impatient));
  std::vector<network::Socket> bad;
  for (unsigned i = 0; i < 20; ++i) {
    bad.push_back(dial(acceptor.address()));
    auto const greeting = good_greeting();
    if (i % 5 == 1) say(bad.back(), std::span{greeting}.first(1 + i));
    if (i % 5 == 2) say(bad.back(), bytes_of("SSH-2.0-nobody\r\n"));
    if (i % 5 == 3) say(bad.back(), Bytes(100'000, std::byte{'l'}));
    if (i % 5 == 4) say(bad.back(), secret_hello());
  }
  GoodPeer peer{acceptor.address(), 5};

  auto const accepted = must(acceptor.accept(greeting_with(1), within(patience)));

  CHECK(accepted.greeting.endpoint == endpoint_of(5));
  CHECK(peer.greeted() == endpoint_of(1));
}

TEST_CASE("a listener holds no more connections than its bound", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener(), impatient));
  std::vector<network::Socket> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(dial(acceptor.address()));

  std::string complaint;
  while (complaint.find("while others waited") == std::string::npos) {
    complaint = rejection_by(acceptor).message();
    REQUIRE(acceptor.pending() <= impatient.pending_max);
  }
}

TEST_CASE("silent connections are rejected however short each wait is", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener(), {.patience = 50ms}));
  auto const silent = dial(acceptor.address());

  CHECK(rejection_of_all(acceptor) == Errc::timed_out);

  CHECK(must(frame_in(hear(silent)).status()).code == network::StatusCode::too_slow);
}

TEST_CASE("a crowd of silent connections gives way to a peer however short each wait is",
          "[network]") {
  auto acceptor = must(
      network::Acceptor::open(loopback_listener(), {.pending_max = 4, .crowded_patience = 50ms}));
  std::vector<network::Socket> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(dial(acceptor.address()));
  auto const peer = dial(acceptor.address());
  say(peer, good_greeting(9));
  say(peer, agreed());

  std::optional<Endpoint> met;
  for (auto const limit = within(patience); !met && !limit.has_passed();)
    if (auto accepted = acceptor.accept(greeting_with(1), within(10ms)); accepted.has_value())
      met = accepted.value().greeting.endpoint;

  CHECK(met == endpoint_of(9));
}

TEST_CASE("without descriptors silent connections give way to a peer", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener(), {.crowded_patience = 50ms}));
  auto const silent = dial(acceptor.address());
  auto const silent_too = dial(acceptor.address());
  auto const peer = dial(acceptor.address());
  say(peer, good_greeting(9));
  say(peer, agreed());
  FewDescriptors const two{2};

  CHECK(must(acceptor.accept(greeting_with(1), within(patience))).greeting.endpoint ==
        endpoint_of(9));
}

TEST_CASE("a listening socket that fails ends the wait", "[network]") {
  auto listening = loopback_listener();
  auto const fd = listening.fd.get();
  auto acceptor = must(network::Acceptor::open(std::move(listening)));
  REQUIRE(::shutdown(fd, SHUT_RDWR) == 0);

  CHECK(error_of(acceptor.accept(greeting_with(1), within(patience))) == Errc::system_failed);
}

TEST_CASE("nobody who met a wait without memory is left to the next one", "[network]") {
  std::string const words(40, 'w');  // too long for a string without memory
  auto const greeting = [&](unsigned endpoint) {
    return introduction({endpoint_of(endpoint), words});
  };
  auto const agreed_in_words =
      bytes_of(encode(network::Status{network::StatusCode::agreed, words}));
  for_each_failure(1, [&](std::uint64_t allowed) {
    auto acceptor = must(network::Acceptor::open(loopback_listener()));
    auto const first = dial(acceptor.address());
    say(first, greeting(8));
    say(first, agreed_in_words);
    say(first,
        bytes_of(encode(network::Status{network::StatusCode::ready, {}})));  // as a peer goes on
    network::Greeting const ours{endpoint_of(1), words};
    std::optional<Endpoint> met;
    bool const needed_more = starved(
        allowed, [&] { met = must(acceptor.accept(ours, within(patience))).greeting.endpoint; });
    auto const second = dial(acceptor.address());
    say(second, greeting(9));
    say(second, agreed_in_words);

    auto const next =
        must(acceptor.accept({endpoint_of(2), words}, within(patience))).greeting.endpoint;

    CHECK(met == (needed_more ? std::nullopt : std::optional{endpoint_of(8)}));
    auto const& who = next == endpoint_of(8) ? first : second;
    CHECK(greeting_in(hear(who, introduction_bytes)).endpoint == endpoint_of(2));
    return needed_more;
  });
}

TEST_CASE("connections that drip and flood do not keep a good peer out", "[network]") {
  auto acceptor = must(network::Acceptor::open(loopback_listener()));
  std::atomic<bool> over{false};
  std::thread dripping{[&] {
    auto const raw = dial(acceptor.address());
    auto const greeting = good_greeting();
    for (std::size_t at = 0; at < greeting.size() && !over.load(); ++at) {
      say(raw, std::span{greeting}.subspan(at, 1));
      std::this_thread::sleep_for(2ms);
    }
  }};
  // At most 32 at a time: those that the kernel keeps come first, however fast they are rejected.
  std::thread flooding{[&] {
    std::deque<network::Socket> raws;
    while (!over.load()) {
      say(raws.emplace_back(dial(acceptor.address())), Bytes(20'000, std::byte{0}));
      if (raws.size() < 32) continue;
      pollfd rejected{raws.front().fd.get(), POLLIN, 0};
      while (!over.load() && ::poll(&rejected, 1, 10) == 0) continue;
      raws.pop_front();
    }
  }};
  for (unsigned i = 0; i < 10; ++i) {
    GoodPeer peer{acceptor.address(), 50 + i};
    CHECK(must(acceptor.accept(greeting_with(1), within(patience))).greeting.endpoint ==
          endpoint_of(50 + i));
    CHECK(peer.greeted() == endpoint_of(1));
  }
  over.store(true);
  dripping.join();
  flooding.join();
}

TEST_CASE("random bytes never join", "[network]") {
  for (auto const seed : seeds(5)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    auto acceptor = must(network::Acceptor::open(loopback_listener(), impatient));
    auto const before = open_descriptors();
    std::vector<network::Socket> crowd;
    for (int round = 0; round < 60; ++round) {
      Bytes bytes = good_greeting();
      bytes[random() % network::frame_header_bytes] ^= static_cast<std::byte>(1 + random() % 255);
      if (random() % 2 == 0) bytes.resize(random() % bytes.size());
      crowd.push_back(dial(acceptor.address()));
      say(crowd.back(), bytes);
      say(crowd.back(), agreed());
      if (random() % 2 == 0) crowd.pop_back();
      if (round % 20 == 19) CHECK(rejection_by(acceptor) == Errc::timed_out);
    }
    crowd.clear();
    crowd.push_back(dial(acceptor.address()));
    crowd.clear();
    CHECK(rejection_of_all(acceptor) == Errc::timed_out);
    CHECK(open_descriptors() == before);
  }
}
