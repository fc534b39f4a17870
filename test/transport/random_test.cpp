// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ends of any sizes pass each message on whole, in order and unharmed while it is held, both
// ways, however the programs send, hold and let go. Method: seeded random programs of one thread;
// each byte of a message follows from its number.
#include <lend/channel/wait_set.hpp>
#include <lend/transport/message_pool.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "support/seed.hpp"
#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

using namespace lend;
using namespace lend::test;

namespace {

std::string message(std::uint32_t way, std::uint32_t number, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(way * 101 + number * 7 + i);
  return text;
}

/// One direction of two ends.
struct Way {
  AnyTransport& from;
  AnyTransport& to;
  std::uint32_t which;
  std::mt19937& random;
  std::uint32_t sent = 0, got = 0;
  std::vector<std::size_t> lengths{};  // of messages that were sent
  struct Held {
    Received message;
    std::uint32_t number = 0;
  };
  std::vector<Held> held{};

  void send() {
    auto const most = from.limits().send_bytes_max;
    auto const least = random() % 4 == 0 ? most : random() % (most + 1);
    auto draft = must(from.try_draft(least, random() % 2 == 0 ? least : most));
    if (!draft || random() % 8 == 0) return;
    REQUIRE(draft.bytes().size() >= least);
    auto const used =
        random() % 3 == 0 ? random() % (draft.bytes().size() + 1) : draft.bytes().size();
    auto const text = message(which, sent, used);
    std::ranges::copy(bytes_of(text), draft.bytes().begin());
    must(std::move(draft).send(used));
    lengths.push_back(used);
    ++sent;
  }
  void receive() {
    auto came = must(to.try_receive());
    if (!came) return;
    REQUIRE(got < sent);
    held.push_back({std::move(came), got});
    check(held.back());
    ++got;
  }
  void check(Held const& one) const {
    REQUIRE(text_of(one.message) == message(which, one.number, lengths[one.number]));
  }
  void let_go() {
    if (held.empty()) return;
    auto const one = held.begin() + static_cast<std::ptrdiff_t>(random() % held.size());
    check(*one);
    held.erase(one);
  }
  /// Receives all that was sent.
  void end() {
    while (got < sent) {
      for (auto const& one : held) check(one);
      held.clear();
      receive();
      static_cast<void>(must(from.poll()));
      static_cast<void>(must(to.poll()));
    }
  }
};

void play(std::pair<AnyTransport, AnyTransport> ends, std::mt19937& random) {
  auto& [a, b] = ends;
  std::array ways{Way{a, b, 0, random}, Way{b, a, 1, random}};
  auto const has_sent = [](Way const& way) { return way.sent > 20; };
  // A kernel's device may be slower than the program, and then takes more steps.
  Deadline const limit =
      within(open_test_device().kind() == DeviceKind::soft ? std::chrono::seconds{0}
                                                           : std::chrono::seconds{20});
  for (int step = 0; step < 6'000 || !(std::ranges::all_of(ways, has_sent) || limit.has_passed());
       ++step) {
    auto& way = ways[random() % 2];
    switch (random() % 4) {
      case 0: way.send(); break;
      case 1: way.receive(); break;
      case 2: way.let_go(); break;
      default: static_cast<void>(must(way.to.poll()));
    }
  }
  for (auto& way : ways) {
    CHECK(has_sent(way));
    way.end();
  }
}

/// Both ends in pools, of which each has too little for the window.
void play_in_pools(std::uint32_t shared, std::uint32_t drafts, std::uint64_t seed) {
  auto const domain = must(open_test_device().allocate_protection_domain());
  auto set = must(WaitSet::create(domain.context()));
  auto pool = must(MessagePool::create(
      set, domain,
      {.message_bytes_max = 64, .transports_max = 2, .shared = shared, .drafts = drafts}));
  TransportOptions const options{.window = 8, .wait_set = &set, .pool = &pool};
  std::mt19937 random{static_cast<std::uint32_t>(seed)};
  play(must(try_unlike_ends<SendReceive>(domain, options, options)), random);
  CHECK(pool.transports() == 0);
  CHECK(pool.shared_free() == shared);
  CHECK(pool.drafts_free() == drafts);
}

template <class Kind>
void play_all(std::vector<std::pair<TransportOptions, TransportOptions>> const& sizes) {
  auto const domain = must(open_test_device().allocate_protection_domain());
  for (auto const seed : seeds(3))
    for (auto const& [of_a, of_b] : sizes) {
      INFO("LEND_TEST_SEED=" << seed);
      CAPTURE(of_a.window, of_a.ring_bytes, of_b.window, of_b.ring_bytes);
      std::mt19937 random{static_cast<std::uint32_t>(seed)};
      auto [a, b] = must(try_ends<Kind>(domain, of_a, of_b));
      play({AnyTransport{std::move(a)}, AnyTransport{std::move(b)}}, random);
    }
}

std::vector<std::pair<TransportOptions, TransportOptions>> const rings{
    {{.window = 4, .ring_bytes = 256}, {.window = 4, .ring_bytes = 256}},
    {{.window = 4, .ring_bytes = 4'096}, {.window = 512, .ring_bytes = 4'096}},
    {{.window = 512, .ring_bytes = 4'096}, {.window = 8, .ring_bytes = 65'536}},
    {{.window = 512, .message_bytes_max = 1, .ring_bytes = 65'536}, {.window = 16}},
};

}  // namespace

TEST_CASE("random programs over ReadRings of any sizes pass every message on", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  play_all<ReadRing>(rings);
}
TEST_CASE("random programs over CreditRings of any sizes pass every message on", "[transport]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  if (lacks(context, &DeviceCapabilities::immediates)) return;
  play_all<CreditRing>(rings);
}
TEST_CASE("random programs over SendReceive of any sizes pass every message on", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  play_all<SendReceive>({
      {{.window = 4, .message_bytes_max = 1}, {.window = 512, .message_bytes_max = 4'096}},
      {{.window = 512, .message_bytes_max = 100}, {.window = 8, .message_bytes_max = 10'000}},
  });
}
TEST_CASE("random programs in a MessagePool of any sizes pass every message on", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  for (auto const seed : seeds(3)) {
    INFO("LEND_TEST_SEED=" << seed);
    play_in_pools(1, 1, seed);
    play_in_pools(4, 2, seed);
    play_in_pools(64, 64, seed);
  }
}
