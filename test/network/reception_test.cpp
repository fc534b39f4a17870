// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: strangers cannot crash, hang or join a listener, nor keep a good peer out. Method: raw
// connections on loopback that say anything; a good peer in a thread.
#include <network/reception.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <random>

#include "network/strangers.hpp"
#include "support/allocation_counter.hpp"
#include "support/few_descriptors.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// Admits until a short deadline, which nobody good will meet.
Error turned_away(Reception& reception) {
  return error_of(reception.admit(terms_with(1), within(10ms)));
}

/// Admits until somebody was turned away and nobody is left; the error that says why.
Error all_turned_away(Reception& reception) {
  for (auto const limit = within(patience); !limit.has_passed();) {
    auto const error = turned_away(reception);
    bool const complained = error.message().find("the last stranger") != std::string::npos;
    if (complained && reception.strangers() == 0) return error;
  }
  FAIL("strangers were not turned away");
  return {};
}

/// Listens, lets a stranger say `bytes` and hang up, and says what the listener made of it.
std::string complaint_about(std::span<std::byte const> bytes) {
  Reception reception{loopback_listener()};
  auto const stranger = dial(reception.address());
  say(stranger, bytes);
  ::shutdown(stranger.fd.get(), SHUT_WR);
  auto const error = all_turned_away(reception);
  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains(reception.address()));
  return error.message();
}

/// Silent strangers give way to newcomers at once, so that no test waits for time to pass.
constexpr ReceptionLimits impatient{.strangers_max = 4, .greeting_shortest = 0ms};

}  // namespace

TEST_CASE("a good peer is admitted and both know each other's endpoint", "[network]") {
  auto const address = GENERATE("127.0.0.1:0", "localhost:0");
  Reception reception{loopback_listener(address)};
  GoodPeer peer{reception.address(), 7};

  auto const admitted = must(reception.admit(terms_with(3), within(patience)));

  CHECK(admitted.endpoint == endpoint_of(7));
  CHECK(peer.greeted() == endpoint_of(3));
  CHECK(reception.strangers() == 0);
}

TEST_CASE("a listener on IPv6 admits a good peer where the host has IPv6", "[network]") {
  auto listening = open_listening(must(resolve(must(parse_address("[::1]:0")))));
  if (!listening) {
    WARN("skipped: no IPv6 loopback here: " << listening.error().message());
    return;
  }
  Reception reception{std::move(listening).value()};
  CHECK(reception.address().starts_with("[::1]:"));
  GoodPeer peer{reception.address()};

  CHECK(must(reception.admit(terms_with(3), within(patience))).endpoint == endpoint_of(2));
}

TEST_CASE("nobody came is said at the deadline", "[network]") {
  Reception reception{loopback_listener()};

  auto const error = turned_away(reception);

  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains("no peer came to " + reception.address()));
}

TEST_CASE("the deadline's error says what the last stranger did wrong", "[network]") {
  auto foreign = good_greeting();
  foreign[8] = std::byte{200};

  CHECK_THAT(complaint_about(bytes_of("GET / HTTP/1.1\r\n\r\n")),
             Catch::Contains("does not speak"));
  CHECK_THAT(complaint_about(foreign), Catch::Contains("version 200"));
  CHECK_THAT(complaint_about(bytes_of(encode(terms_with(2, "x").ours))),
             Catch::Contains("another secret"));
  CHECK_THAT(complaint_about(bytes_of(encode(terms_with(0).ours))), Catch::Contains("all zeros"));
  CHECK_THAT(complaint_about(agreed()), Catch::Contains("verdict before"));
  CHECK_THAT(complaint_about({}), Catch::Contains("hung up"));
}

TEST_CASE("a stranger hears why it is turned away", "[network]") {
  Reception reception{loopback_listener()};
  auto foreign = good_greeting();
  foreign[8] = std::byte{200};
  auto const old_timer = dial(reception.address());
  say(old_timer, foreign);
  static_cast<void>(all_turned_away(reception));
  auto const spy = dial(reception.address());
  say(spy, bytes_of(encode(terms_with(2, "guess").ours)));
  static_cast<void>(all_turned_away(reception));

  CHECK(must(frame_in(hear(old_timer)).verdict()).code == VerdictCode::foreign);
  auto const to_spy = hear(spy);
  CHECK(to_spy.size() == verdict_bytes);
  CHECK(must(frame_in(to_spy).verdict()).code == VerdictCode::wrong_secret);
}

TEST_CASE("a stranger that hangs up after any byte leaves nothing behind", "[network]") {
  Reception reception{loopback_listener()};
  auto const before = open_descriptors();
  auto const greeting = good_greeting();
  for (std::size_t length = 0; length <= greeting.size(); ++length) {
    auto const stranger = dial(reception.address());
    say(stranger, std::span{greeting}.first(length));
  }
  GoodPeer peer{reception.address(), 5};

  auto const deadline = within(patience);
  auto admitted = must(reception.admit(terms_with(1), deadline));

  CHECK(admitted.endpoint == endpoint_of(5));
  CHECK(peer.greeted() == endpoint_of(1));
  admitted.socket.fd = UniqueFd{};
  CHECK(open_descriptors() == before);
}

TEST_CASE("a peer that greets well and never agrees gives way to the next", "[network]") {
  Reception reception{loopback_listener(), {.greeting_longest = 50ms}};
  auto const mute = dial(reception.address());
  say(mute, good_greeting(8));
  auto const greeted_too = dial(reception.address());
  say(greeted_too, good_greeting(9));
  say(greeted_too, agreed());

  auto const admitted = must(reception.admit(terms_with(1), within(patience)));

  CHECK(admitted.endpoint == endpoint_of(9));
  CHECK(must(frame_in(hear(mute)).greeting()).endpoint == endpoint_of(1));
}

TEST_CASE("a peer that was told an endpoint is turned away when the wait for it fails",
          "[network]") {
  Reception reception{loopback_listener(),
                      {.greeting_longest = patience, .greeting_shortest = patience}};
  auto const first = dial(reception.address());
  say(first, good_greeting(8));
  auto const there = must(resolve(must(parse_address(reception.address())))).front();
  Socket const second{UniqueFd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}, "the second"};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::latch failed{1};  // UBSan asks of an ending thread's state by a pipe: descriptors first
  std::thread coming{[&] {
    pollfd waiting{first.fd.get(), POLLIN, 0};
    static_cast<void>(wait_for({&waiting, 1}, within(patience)));
    int const lowest_free = ::dup(STDERR_FILENO);
    ::close(lowest_free);
    rlimit const none{static_cast<rlim_t>(lowest_free), before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    static_cast<void>(::connect(second.fd.get(), there.native(), there.length));
    say(second, good_greeting(9));
    say(second, agreed());
    failed.wait();
  }};
  CHECK(error_of(reception.admit(terms_with(1), within(patience))) == Errc::exhausted);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  failed.count_down();
  coming.join();
  REQUIRE(reception.strangers() == 0);

  auto const told = hear(first);
  say(first, agreed());
  auto const admitted = must(reception.admit(terms_with(2), within(patience)));

  CHECK(must(frame_in(told).greeting()).endpoint == endpoint_of(1));
  auto const verdict = must(frame_in(std::span{told}.subspan(greeting_bytes)).verdict());
  CHECK(verdict.code == VerdictCode::failed);
  CHECK_THAT(verdict.text, Catch::Contains("accept failed"));
  CHECK(admitted.endpoint == endpoint_of(9));
  CHECK(must(frame_in(hear(second, greeting_bytes)).greeting()).endpoint == endpoint_of(2));
}

TEST_CASE("peers that come together are served one after the other", "[network]") {
  Reception reception{loopback_listener(), {.strangers_max = 3}};
  constexpr unsigned count = 8;
  std::vector<std::unique_ptr<GoodPeer>> peers;
  for (unsigned i = 0; i < count; ++i)
    peers.push_back(std::make_unique<GoodPeer>(reception.address(), 100 + i));

  std::vector<bool> seen(count, false);
  std::vector<EndpointBytes> ours(count);
  for (unsigned i = 0; i < count; ++i) {
    auto const admitted = must(reception.admit(terms_with(1 + i), within(patience)));
    auto const who = std::to_integer<unsigned>(admitted.endpoint[0]) - 100;
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
  Reception reception{loopback_listener(), impatient};
  std::vector<Socket> bad;
  for (unsigned i = 0; i < 20; ++i) {
    bad.push_back(dial(reception.address()));
    auto const greeting = good_greeting();
    if (i % 5 == 1) say(bad.back(), std::span{greeting}.first(1 + i));
    if (i % 5 == 2) say(bad.back(), bytes_of("SSH-2.0-nobody\r\n"));
    if (i % 5 == 3) say(bad.back(), Bytes(100'000, std::byte{'l'}));
    if (i % 5 == 4) say(bad.back(), bytes_of(encode(terms_with(2, "guess").ours)));
  }
  GoodPeer peer{reception.address(), 5};

  auto const admitted = must(reception.admit(terms_with(1), within(patience)));

  CHECK(admitted.endpoint == endpoint_of(5));
  CHECK(peer.greeted() == endpoint_of(1));
}

TEST_CASE("a listener holds no more strangers than its bound", "[network]") {
  Reception reception{loopback_listener(), impatient};
  std::vector<Socket> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(dial(reception.address()));

  std::string complaint;
  while (complaint.find("while others waited") == std::string::npos) {
    complaint = turned_away(reception).message();
    REQUIRE(reception.strangers() <= impatient.strangers_max);
  }
}

TEST_CASE("silent strangers are turned away however short each wait is", "[network]") {
  Reception reception{loopback_listener(), {.greeting_longest = 50ms}};
  auto const silent = dial(reception.address());

  CHECK(all_turned_away(reception) == Errc::timed_out);

  CHECK(must(frame_in(hear(silent)).verdict()).code == VerdictCode::too_slow);
}

TEST_CASE("a crowd of silent strangers gives way to a peer however short each wait is",
          "[network]") {
  Reception reception{loopback_listener(), {.strangers_max = 4, .greeting_shortest = 50ms}};
  std::vector<Socket> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(dial(reception.address()));
  auto const peer = dial(reception.address());
  say(peer, good_greeting(9));
  say(peer, agreed());

  std::optional<EndpointBytes> met;
  for (auto const limit = within(patience); !met && !limit.has_passed();)
    if (auto admitted = reception.admit(terms_with(1), within(10ms)); admitted.has_value())
      met = admitted.value().endpoint;

  CHECK(met == endpoint_of(9));
}

TEST_CASE("without descriptors silent strangers give way to a peer", "[network]") {
  Reception reception{loopback_listener(), {.greeting_shortest = 50ms}};
  auto const silent = dial(reception.address());
  auto const silent_too = dial(reception.address());
  auto const peer = dial(reception.address());
  say(peer, good_greeting(9));
  say(peer, agreed());
  FewDescriptors const two{2};

  CHECK(must(reception.admit(terms_with(1), within(patience))).endpoint == endpoint_of(9));
}

TEST_CASE("a listening socket that fails ends the wait", "[network]") {
  auto listening = loopback_listener();
  auto const fd = listening.fd.get();
  Reception reception{std::move(listening)};
  REQUIRE(::shutdown(fd, SHUT_RDWR) == 0);

  CHECK(error_of(reception.admit(terms_with(1), within(patience))) == Errc::system_failed);
}

TEST_CASE("nobody who met a wait without memory is left to the next one", "[network]") {
  std::string const words(40, 'w');  // too long for a string without memory
  auto const greeting = [&](unsigned endpoint) {
    return bytes_of(encode(terms_with(endpoint, words).ours));
  };
  auto const agreed_in_words = bytes_of(encode(Verdict{VerdictCode::agreed, words}));
  bool was_felt = true;
  for (std::uint64_t allowed = 0; was_felt; ++allowed) {
    CAPTURE(allowed);
    Reception reception{loopback_listener()};
    auto const first = dial(reception.address());
    say(first, greeting(8));
    say(first, agreed_in_words);
    say(first, bytes_of(encode(Verdict{VerdictCode::ready, {}})));  // as a peer goes on
    auto const terms = terms_with(1, words);
    std::optional<EndpointBytes> met;
    {
      Famine const famine{allowed};
      try {
        met = must(reception.admit(terms, within(patience))).endpoint;
      } catch (std::bad_alloc const&) {
      }
      was_felt = famine.was_felt();
    }
    auto const second = dial(reception.address());
    say(second, greeting(9));
    say(second, agreed_in_words);

    auto const next = must(reception.admit(terms_with(2, words), within(patience))).endpoint;

    CHECK(met == (was_felt ? std::nullopt : std::optional{endpoint_of(8)}));
    auto const& who = next == endpoint_of(8) ? first : second;
    CHECK(must(frame_in(hear(who, greeting_bytes)).greeting()).endpoint == endpoint_of(2));
  }
}

TEST_CASE("strangers that drip and flood do not keep a good peer out", "[network]") {
  Reception reception{loopback_listener()};
  std::atomic<bool> over{false};
  std::thread dripping{[&] {
    auto const stranger = dial(reception.address());
    auto const greeting = good_greeting();
    for (std::size_t at = 0; at < greeting.size() && !over.load(); ++at) {
      say(stranger, std::span{greeting}.subspan(at, 1));
      std::this_thread::sleep_for(2ms);
    }
  }};
  std::thread flooding{[&] {
    while (!over.load()) {
      auto const stranger = dial(reception.address());
      say(stranger, Bytes(20'000, std::byte{0}));
    }
  }};
  for (unsigned i = 0; i < 10; ++i) {
    GoodPeer peer{reception.address(), 50 + i};
    CHECK(must(reception.admit(terms_with(1), within(patience))).endpoint == endpoint_of(50 + i));
    CHECK(peer.greeted() == endpoint_of(1));
  }
  over.store(true);
  dripping.join();
  flooding.join();
}

TEST_CASE("random strangers never join", "[network]") {
  for (auto const seed : seeds(5)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    Reception reception{loopback_listener(), impatient};
    auto const before = open_descriptors();
    std::vector<Socket> strangers;
    for (int round = 0; round < 60; ++round) {
      Bytes bytes = good_greeting();
      bytes[random() % (frame_header_bytes + 2)] ^= static_cast<std::byte>(1 + random() % 255);
      if (random() % 2 == 0) bytes.resize(random() % bytes.size());
      strangers.push_back(dial(reception.address()));
      say(strangers.back(), bytes);
      say(strangers.back(), agreed());
      if (random() % 2 == 0) strangers.pop_back();
      if (round % 20 == 19) CHECK(turned_away(reception) == Errc::timed_out);
    }
    strangers.clear();
    strangers.push_back(dial(reception.address()));
    strangers.clear();
    CHECK(all_turned_away(reception) == Errc::timed_out);
    CHECK(open_descriptors() == before);
  }
}
