// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: connections that send nothing, or never a whole greeting, do not keep a peer out. Method:
// as many on loopback as the kernel queues and this process may open, then a good peer. How long it
// may take follows from the limits of the acceptor, not from the machine.
#include <network/exchange/acceptor.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include "network/raw_peers.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t wanted = 4000;

// Both as the library has them: a peer behind 4,000 silent connections waits half a second at most.
constexpr network::AdmissionLimits limits{};
static_assert(wanted / limits.pending_max * limits.crowded_patience <= 500ms);

/// As many descriptors as this process may have, for a while.
class MostDescriptors {
 public:
  MostDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit const most{before_.rlim_max, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &most) == 0);
  }
  MostDescriptors(MostDescriptors const&) = delete;
  MostDescriptors& operator=(MostDescriptors const&) = delete;
  ~MostDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  [[nodiscard]] std::size_t free() const { return before_.rlim_max - open_descriptors(); }

 private:
  rlimit before_{};
};

/// Connections that a listening socket of this host keeps until they are accepted.
std::size_t longest_queue() {
  std::ifstream file{"/proc/sys/net/core/somaxconn"};
  std::size_t most = 128;
  file >> most;
  return std::min<std::size_t>(most, SOMAXCONN);
}

/// 4,000, or as many as the host lets be; some places are left for the peer.
std::size_t crowd_size(MostDescriptors const& descriptors) {
  constexpr std::size_t for_others = limits.pending_max + 16;
  auto const free = descriptors.free();
  REQUIRE(free > for_others);
  auto const count = std::min({wanted, longest_queue() - 8, free - for_others});
  if (count < wanted)
    WARN("scaled to " << count << " connections: descriptors and somaxconn allow no more");
  return count;
}

}  // namespace

TEST_CASE("a peer gets in beside thousands of connections that send no greeting", "[network]") {
  auto const length = GENERATE(std::size_t{0}, std::size_t{1}, network::hello_bytes);
  CAPTURE(length);
  MostDescriptors const descriptors;
  auto const count = crowd_size(descriptors);
  auto const greeting = good_greeting();
  // Where the peer is not scheduled for the 100 ms that it has for its answer, again.
  bool is_in = false;
  for (int tries = 0; !is_in && tries < 3; ++tries) {
    auto acceptor = must(network::Acceptor::open(loopback_listener()));
    std::vector<network::Socket> crowd;
    for (std::size_t i = 0; i < count; ++i) {
      crowd.push_back(dial(acceptor.address()));
      if (length > 0) say(crowd.back(), std::span{greeting}.first(length));
    }
    GoodPeer peer{acceptor.address(), 9};

    // 16 s for 4,000: with 32 places for 200 ms each they would need 25 s. Those that send a hello
    // keep a place for 100 ms.
    auto const accepted = acceptor.accept(greeting_with(1), within(count * 4ms));
    is_in = accepted.has_value();
    if (!is_in) {
      CHECK(accepted.error() == Errc::timed_out);
      continue;
    }
    CHECK(accepted.value().greeting.endpoint == endpoint_of(9));
    CHECK(peer.greeted() == endpoint_of(1));
  }
  CHECK(is_in);
}

TEST_CASE("a peer gets in by poll() beside thousands of connections that send no greeting",
          "[network]") {
  /// An end without a device.
  class End final : public network::Offer {
   public:
    explicit End(Endpoint& peer) noexcept : peer_{peer} {}
    network::Greeting greeting() const override { return greeting_with(1); }
    Result<void> connect(network::Greeting const& theirs) override {
      peer_ = theirs.endpoint;
      return success();
    }

   private:
    Endpoint& peer_;
  };
  auto const length = GENERATE(std::size_t{0}, std::size_t{1}, network::hello_bytes);
  CAPTURE(length);
  MostDescriptors const descriptors;
  auto const count = crowd_size(descriptors);
  auto const greeting = good_greeting();
  Endpoint met{};
  // As above.
  for (int tries = 0; met != endpoint_of(9) && tries < 3; ++tries) {
    auto acceptor = must(network::Acceptor::open(loopback_listener()));
    must(acceptor.begin([&](Arrival const&) { return std::make_unique<End>(met); }));
    std::vector<network::Socket> crowd;
    for (std::size_t i = 0; i < count; ++i) {
      crowd.push_back(dial(acceptor.address()));
      if (length > 0) say(crowd.back(), std::span{greeting}.first(length));
    }
    GoodPeer peer{acceptor.address(), 9};

    for (auto const limit = within(count * 4ms); met != endpoint_of(9) && !limit.has_passed();) {
      pollfd waiting{acceptor.descriptor(), POLLIN, 0};
      static_cast<void>(must(network::wait_for({&waiting, 1}, limit)));
      CHECK_FALSE(must(acceptor.poll()).has_value());
      CHECK(acceptor.pending() <= ListenerLimits{}.unproven_max + ListenerLimits{}.connecting_max);
    }
    acceptor = must(network::Acceptor::open(loopback_listener()));  // the peer hears of its end
  }
  CHECK(met == endpoint_of(9));
}

TEST_CASE("a connection that has sent nothing takes no place from one that has", "[network]") {
  constexpr network::AdmissionLimits one_place{
      .pending_max = 1, .patience = patience, .crowded_patience = patience};
  // The kernel keeps a silent connection for a second; where this thread sleeps longer, again.
  bool is_in = false;
  for (int tries = 0; !is_in && tries < 20; ++tries) {
    auto acceptor = must(network::Acceptor::open(loopback_listener(), one_place));
    auto const silent = dial(acceptor.address());
    auto const peer = dial(acceptor.address());
    say(peer, good_greeting(9));
    say(peer, agreed());
    is_in = acceptor.accept(greeting_with(1), within(500ms)).has_value();
  }
  CHECK(is_in);
}

TEST_CASE("an admission whose places are taken sleeps until a client may give way", "[network]") {
  auto const admit = [](network::Admission::Client&) {
    return network::Status{network::StatusCode::foreign, "came"};
  };
  std::vector<network::Socket> listening;
  listening.push_back(loopback_listener());
  auto const admission = must(network::Admission::open(
      std::move(listening), {}, network::Purpose::connect,
      {.pending_max = 1, .patience = patience, .crowded_patience = patience}));
  auto const silent = dial(admission->address());
  auto const other = dial(admission->address());
  say(silent, bytes_of("l"));
  say(other, good_greeting());
  auto const is_readable = [&] {
    pollfd waiting{admission->descriptor(), POLLIN, 0};
    return must(network::wait_for({&waiting, 1}, within(1s)));
  };

  int serves = 0;
  while (serves < 100 && is_readable()) {
    must(admission->serve(admit));
    ++serves;
  }

  CHECK(serves < 10);
  CHECK(admission->clients() == 1);
}

TEST_CASE("a crowd of silent connections gives way to a peer also after a pause between accepts",
          "[network]") {
  auto acceptor = must(network::Acceptor::open(
      loopback_listener(), {.pending_max = 4, .patience = 100ms, .crowded_patience = 50ms}));
  std::vector<network::Socket> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(dial(acceptor.address()));
  CHECK(acceptor.accept(greeting_with(1), within(10ms)).has_error());
  // Longer than all patience: it counts against no client, and for none.
  std::this_thread::sleep_for(2s);
  auto const peer = dial(acceptor.address());
  say(peer, good_greeting(9));
  say(peer, agreed());
  auto const before = std::chrono::steady_clock::now();
  auto const accepted = must(acceptor.accept(greeting_with(1), within(patience)));
  CHECK(accepted.greeting.endpoint == endpoint_of(9));
  CHECK(std::chrono::steady_clock::now() - before < 1500ms);  // of 1.9 s that were excused twice
}

TEST_CASE("in a crowd a peer has its time from the answer that it is to follow", "[network]") {
  auto acceptor = must(network::Acceptor::open(
      loopback_listener(),
      {.pending_max = 1, .patience = 10s, .crowded_patience = 0ms, .crowded_answer = 500ms}));
  auto const greeting = good_greeting(9);
  auto const hello = std::span{greeting}.first(network::hello_bytes);
  auto const peer = dial(acceptor.address());
  say(peer, hello.first(8));
  for (auto const limit = within(600ms); !limit.has_passed();)
    CHECK(error_of(acceptor.accept(greeting_with(1), within(10ms))) == Errc::timed_out);
  REQUIRE(acceptor.pending() == 1);
  say(peer, hello.subspan(8));
  auto const other = dial(acceptor.address());
  say(other, good_greeting(5));
  CHECK(error_of(acceptor.accept(greeting_with(1), within(10ms))) ==
        Errc::timed_out);  // answers the hello
  say(peer, std::span{greeting}.subspan(network::hello_bytes));
  say(peer, agreed());

  CHECK(must(acceptor.accept(greeting_with(1), within(patience))).greeting.endpoint ==
        endpoint_of(9));
}
