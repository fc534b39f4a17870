// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each kind of transport does what the list says. Method: the list of conformance.hpp over
// ends of each kind; for memory, also with its faults.
#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

#include <lend/soft/faults.hpp>
#include <lend/transport/memory.hpp>

using namespace lend;
using namespace lend::test;

namespace {

MakeEnds in_memory(MemoryFaults const& faults = {}) {
  return [faults](TransportOptions const& options) {
    auto [a, b] = must(memory_transports(options, faults));
    return Ends{AnyTransport{std::move(a)}, AnyTransport{std::move(b)}};
  };
}

struct Prepared {
  PreparedSendReceive a, b;
};
Prepared prepare_both(TransportOptions const& of_a, TransportOptions const& of_b) {
  auto const domain = must(open_test_device().allocate_protection_domain());
  return {must(SendReceive::prepare(domain, of_a)), must(SendReceive::prepare(domain, of_b))};
}

/// `ring_bytes`: of the ring, if the kind has one.
template <class Kind>
MakeEnds over_channels(std::uint32_t ring_bytes = 0) {
  return [ring_bytes](TransportOptions options) {
    options.ring_bytes = ring_bytes;
    auto const domain = must(open_test_device().allocate_protection_domain());
    auto ends = must(try_any_ends<Kind>(domain, options));
    if constexpr (std::same_as<Kind, ReadRing>) return accompanied(std::move(ends));
    return ends;
  };
}

void check_list(MakeEnds const& make) {
  for (auto const& each : scenarios_of_transports()) DYNAMIC_SECTION(each.sentence) {
      each.run(make);
    }
}

}  // namespace

static_assert(IsTransport<MemoryTransport> && IsTransport<SendReceive> && IsTransport<CreditRing> &&
              IsTransport<ReadRing>);
static_assert(!std::is_copy_constructible_v<Received> && !std::is_copy_constructible_v<Draft>);

TEST_CASE("a transport in memory does what the list of transports says", "[transport]") {
  check_list(in_memory());
}
TEST_CASE("a transport in memory does so although its descriptors fail it", "[transport]") {
  check_list(in_memory({.is_silent = true}));
}
TEST_CASE("a transport in memory does so although it is woken for nothing", "[transport]") {
  check_list(in_memory({.wakes_for_nothing = true}));
}
TEST_CASE("SendReceive does what the list of transports says", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  check_list(over_channels<SendReceive>());
}
TEST_CASE("CreditRing does what the list of transports says", "[transport]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  if (lacks(context, &DeviceCapabilities::immediates)) return;
  check_list(over_channels<CreditRing>());
}
TEST_CASE("CreditRing does so in a ring that is soon full", "[transport]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  if (lacks(context, &DeviceCapabilities::immediates)) return;
  check_list(over_channels<CreditRing>(4'096));
}
TEST_CASE("CreditRing does so where faults are planned, by requests alone", "[transport]") {
  auto const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return skip(context, "faults are planned");
  check_list([](TransportOptions const& options) {
    auto const with_faults = open_test_device();
    must(inject_faults(with_faults, FaultPlan{}.drop(1'000'000)));
    return must(try_any_ends<CreditRing>(must(with_faults.allocate_protection_domain()), options));
  });
}
TEST_CASE("ReadRing does what the list of transports says", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  check_list(over_channels<ReadRing>());
}
TEST_CASE("ReadRing does so in a ring that is soon full", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  check_list(over_channels<ReadRing>(4'096));
}

TEST_CASE("a message that comes late is waited for", "[transport]") {
  auto [a, b] = must(memory_transports({}, {.late_polls = 3}));
  for (int round = 0; round < 10; ++round) {
    int const sent = fill(a);
    for (int i = 0; i < sent; ++i) CHECK(receive(b) == std::to_string(i));
  }
}

TEST_CASE("an end that dies at any word leaves its peer what came before", "[transport]") {
  for (std::uint64_t word = 1; word <= 12; ++word) {
    CAPTURE(word);
    auto [a, b] = must(memory_transports({.window = 4}, {.dies_at_word = word}));
    std::uint64_t sent = 0, got = 0;
    Result<void> done = success();
    for (; done.has_value() && sent < 11; sent += done.has_value()) {
      done = send_message(a, bytes_of("x"), patience());
      while (done.has_value() && got <= sent && must(receive_message(b, patience()))) ++got;
    }
    if (done) done = a.finish_sending();
    if (word < 12) CHECK(error_of(done) == Errc::peer_lost);
    CHECK(got == word - 1);
    CHECK(error_of(receive_message(b, patience())) == Errc::peer_lost);
  }
}

TEST_CASE("an end whose finish was not sent does not finish", "[transport]") {
  auto [a, b] = must(memory_transports({}, {.dies_at_word = 1}));
  must(b.finish_sending());
  REQUIRE(must(receive_message(a, patience())).is_end());
  CHECK(error_of(finish(a, patience())) == Errc::peer_lost);
  CHECK(error_of(receive_message(b, patience())) == Errc::peer_lost);
}

TEST_CASE("a word with any bit flipped is refused, or is another word that the rules allow",
          "[transport]") {
  int refused = 0;
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    CAPTURE(bit);
    auto [a, b] = must(memory_transports({}, {.flips_at_word = 3, .flipped_bit = bit}));
    for (int i = 0; i < 3; ++i) send(a, "12345");
    send(b, "here");
    CHECK(receive(b) == "12345");
    CHECK(receive(b) == "12345");
    auto const third = receive_message(b, patience());
    if (third) continue;
    ++refused;
    CHECK(third.error() == Errc::incompatible_peer);
    CHECK(error_of(b.try_draft(1, 1)) == Errc::incompatible_peer);
    CHECK(receive(a) == "here");
    CHECK(error_of(receive_message(a, patience())) == Errc::peer_lost);
  }
  CHECK(refused == 31);  // freed 1 is what may be true: one was sent
}

TEST_CASE("each direction has its receiver's sizes", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto [a, b] = ends<SendReceive>({.window = 8, .message_bytes_max = 100},
                                  {.window = 4, .message_bytes_max = 100'000});
  CHECK(a.limits().send_bytes_max == 100'000);
  CHECK(b.limits().send_bytes_max == 100);
  for (int i = 0; i < 4; ++i) send(a, std::to_string(i));
  for (int i = 0; i < 8; ++i) send(b, std::to_string(i));
  CHECK(fill(a) == 0);
  CHECK(fill(b) == 0);
  for (int i = 0; i < 4; ++i) CHECK(receive(b) == std::to_string(i));
  std::string const large(100'000, 'x');
  send(a, large);
  CHECK(receive(b) == large);
}

TEST_CASE("options out of range are refused with the limit", "[transport]") {
  auto const domain = must(open_test_device().allocate_protection_domain());
  auto const [options, words] = GENERATE(table<TransportOptions, std::string>({
      {{.window = 3}, "window of 3 messages; choose 4 to 512, a multiple of 4"},
      {{.window = 6}, "window of 6 messages"},
      {{.window = 516}, "window of 516 messages"},
      {{.message_bytes_max = 1u << 20}, "messages of 1048576 bytes; choose 1 to 1048575"},
  }));
  auto const of_device = error_of(SendReceive::prepare(domain, options));
  CHECK(of_device == Errc::invalid_argument);
  CHECK(of_device.message().find(words) != std::string::npos);
  CHECK(error_of(memory_transports(options)) == Errc::invalid_argument);
  CHECK(error_of(SendReceive::prepare(domain, {.kind = TransportKind::memory})) ==
        Errc::invalid_argument);
}

TEST_CASE("a transport over a queue pair that something else connected is as any", "[transport]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto const talk = [&](auto kind) {
    using Kind = typename decltype(kind)::type;
    auto [a, b] = must(try_adopted_ends<Kind>(domain));
    Ends ends = accompanied({AnyTransport{std::move(a)}, AnyTransport{std::move(b)}});
    for (int round = 0; round < 100; ++round) {
      send(ends.first, "to b " + std::to_string(round));
      CHECK(receive(ends.second) == "to b " + std::to_string(round));
      send(ends.second, "to a " + std::to_string(round));
      CHECK(receive(ends.first) == "to a " + std::to_string(round));
    }
  };
  talk(std::type_identity<SendReceive>{});
  talk(std::type_identity<ReadRing>{});
  if (!lacks(context, &DeviceCapabilities::immediates)) talk(std::type_identity<CreditRing>{});
}

TEST_CASE(
    "terms that do not fit are refused before a queue pair is connected, and as it is adopted",
    "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto [a, b] = prepare_both({}, {});
  TransportTerms damaged = b.terms();
  damaged[3] ^= std::byte{4};
  CHECK(error_of(a.check(damaged)) == Errc::incompatible_peer);
  must(a.check(b.terms()));

  auto queue_pair = must(a.take_queue_pair().connect(b.endpoint()));
  auto const terms = b.terms();
  SECTION("by the terms") {
    CHECK(error_of(std::move(a).adopt(std::move(queue_pair), damaged)) == Errc::incompatible_peer);
  }
  SECTION("by the queue pair, which is another's") {
    CHECK(error_of(std::move(b).adopt(std::move(queue_pair), terms)) == Errc::invalid_argument);
    std::swap(a, b);
  }
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(error_of(std::move(a).adopt(std::move(queue_pair), terms)) == Errc::stale_handle);
}

TEST_CASE("terms that are damaged or do not fit connect nothing", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto [a, b] = prepare_both({}, {});
  TransportTerms terms = b.terms();
  SECTION("damaged") {
    terms[3] ^= std::byte{4};
    CHECK(error_of(std::move(a).handshake(b.endpoint(), terms)) == Errc::incompatible_peer);
  }
  SECTION("cut") {
    auto const cut = std::span{terms}.first(31);
    CHECK(error_of(std::move(a).handshake(b.endpoint(), cut)) == Errc::incompatible_peer);
  }
  CHECK(error_of(std::move(a).handshake(b.endpoint(), b.terms())) == Errc::stale_handle);
}
