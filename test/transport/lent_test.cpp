// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a lent message is read whole where it lies, in order with the others, and its bytes are on
// loan exactly until the peer has read or dropped it, or is lost. Method: two ends in one process.
#include <lend/transport/lending.hpp>
#include <lend/transport/memory.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t lent_bytes = 3'000'001;  // more than any message can have

/// Two ends of small messages, and memory of each.
struct LendingEnds {
  ProtectionDomain domain;
  MemoryRegion mine, theirs;
  AnyTransport a, b;
};

std::optional<LendingEnds> lending_ends(TransportKind kind, std::size_t bytes = lent_bytes,
                                        std::optional<RemoteAccess> exposed = {}) {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return std::nullopt;
  bool const is_ring = kind == TransportKind::credit_ring;
  if (is_ring && lacks(context, &DeviceCapabilities::immediates)) return std::nullopt;
  auto const domain = must(context.allocate_protection_domain());
  TransportOptions options;
  options.window = 8;
  options.message_bytes_max = 256;
  options.lent_bytes_max = 4 << 20;
  options.keep_alive = 20ms;
  // SAFETY: only what try_fetch() reads is accessed, while it is lent.
  auto mine =
      must(exposed ? domain.unsafe_allocate_exposed(bytes, *exposed) : domain.allocate(bytes));
  auto theirs = must(domain.allocate(bytes));
  auto ends = must(is_ring ? try_any_ends<CreditRing>(domain, options)
                           : try_any_ends<SendReceive>(domain, options));
  return LendingEnds{domain, std::move(mine), std::move(theirs), std::move(ends.first),
                     std::move(ends.second)};
}

constexpr TransportKind lending_kinds[] = {TransportKind::send_receive, TransportKind::credit_ring};

void number(MemoryRegion& memory, unsigned seed) {
  auto const bytes = must(memory.mutable_bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = std::byte((i + seed) * 0x9e37'79b9'7f4a'7c15u >> 56);
}
bool are_equal(MemoryRegion const& one, MemoryRegion const& other, std::size_t at,
               std::size_t count) {
  return std::ranges::equal(must(one.bytes(at, count)), must(other.bytes(at, count)));
}
bool may_write(MemoryRegion& memory) {
  auto const bytes = memory.mutable_bytes();
  return bytes.has_value();
}
Received next_of(AnyTransport& end) {
  auto message = must(receive_message(end, patience()));
  REQUIRE_FALSE(message.is_end());
  return message;
}

}  // namespace

TEST_CASE("a lent message of any length comes in order, and is on loan until it was read",
          "[transport]") {
  auto const kind = GENERATE(from_range(std::begin(lending_kinds), std::end(lending_kinds)));
  auto const exposed = GENERATE(std::optional<RemoteAccess>{}, std::optional{RemoteAccess::read});
  auto ends = lending_ends(kind, lent_bytes, exposed);
  if (!ends) return;
  auto& [domain, mine, theirs, a, b] = *ends;
  number(mine, 1);

  send(a, "before");
  auto const lent = must(send_lent(a, mine.gather(0, mine.size()), patience()));
  send(a, "behind");

  CHECK(error_of(mine.mutable_bytes(5, 1)) == Errc::already_borrowed);
  must(mine.bytes());
  CHECK(receive(b) == "before");
  auto const message = next_of(b);
  REQUIRE(message.is_lent());
  CHECK(message.length() == lent_bytes);
  CHECK(message.bytes().empty());
  CHECK(receive(b) == "behind");
  CHECK_FALSE(must(lent.is_over()));
  CHECK(a.sends_in_flight() > 0);

  must(fetch(b, message, theirs.scatter(0, theirs.size()), patience()));

  CHECK(are_equal(mine, theirs, 0, lent_bytes));
  CHECK(may_write(theirs));
  must(wait_until_over(a, lent, patience()));
  CHECK(may_write(mine));
  CHECK(mine.loans() == 0);
}

TEST_CASE("four messages are lent at a time, and each that is read or dropped makes room",
          "[transport]") {
  auto const kind = GENERATE(from_range(std::begin(lending_kinds), std::end(lending_kinds)));
  auto ends = lending_ends(kind, 40'000);
  if (!ends) return;
  auto& [domain, mine, theirs, a, b] = *ends;
  number(mine, 2);
  std::vector<LentMessage> lent;
  std::vector<Received> came;
  for (std::size_t i = 0; i < 4; ++i) {
    lent.push_back(must(send_lent(a, mine.gather(i * 10'000, 10'000), patience())));
    came.push_back(next_of(b));
  }
  CHECK_FALSE(must(a.try_send_lent(mine.gather(0, 1))));

  // In any order: the third is dropped, the second read.
  came[2] = Received{};
  must(wait_until_over(a, lent[2], patience()));
  must(fetch(b, came[1], theirs.scatter(10'000, 10'000), patience()));
  must(wait_until_over(a, lent[1], patience()));

  CHECK(are_equal(mine, theirs, 10'000, 10'000));
  CHECK_FALSE(must(lent[0].is_over()));
  CHECK_FALSE(must(lent[3].is_over()));
  CHECK(mine.mutable_bytes(10'000, 20'000).has_value());
  CHECK(mine.mutable_bytes(9'999, 1).has_error());
  CHECK(must(a.try_send_lent(mine.gather(0, 1))));
  CHECK(must(a.try_send_lent(mine.gather(1, 1))));
  CHECK_FALSE(must(a.try_send_lent(mine.gather(2, 1))));
}

TEST_CASE("messages are lent both ways at once, among others, for as long as one likes",
          "[transport]") {
  auto const kind = GENERATE(from_range(std::begin(lending_kinds), std::end(lending_kinds)));
  constexpr std::size_t part = 9'001, parts = 7;
  auto ends = lending_ends(kind, part * parts);
  if (!ends) return;
  auto& [domain, mine, theirs, a, b] = *ends;
  auto extra = must(domain.allocate(part * parts));
  number(mine, 3);
  number(extra, 4);
  auto from_a = must(domain.allocate(part * parts)), from_b = must(domain.allocate(part * parts));
  struct Side {
    AnyTransport* end;
    MemoryRegion *source, *target;
    std::size_t sent = 0, got = 0;
    std::vector<LentMessage> lent{};
    Received current{};
  };
  std::array<Side, 2> sides{Side{&a, &mine, &from_b}, Side{&b, &extra, &from_a}};
  constexpr std::size_t messages = 300;
  auto const deadline = patience();
  while (sides[0].got < messages || sides[1].got < messages) {
    REQUIRE_FALSE(deadline.has_passed());
    for (auto& side : sides) {
      auto const piece = side.source->gather(side.sent % parts * part, part);
      // Every third is copied.
      if (side.sent < messages && side.sent % 3 == 0) {
        std::span<std::byte const> const text = bytes_of("copied");
        side.sent += must(try_send(*side.end, {&text, 1}));
      } else if (side.sent < messages) {
        auto lent = must(side.end->try_send_lent(piece));
        if (lent) side.lent.push_back(std::move(lent)), ++side.sent;
      }
      if (!side.current) side.current = must(side.end->try_receive());
      if (side.current && side.got % 3 == 0) {
        REQUIRE(text_of(side.current) == "copied");
        side.current = Received{}, ++side.got;
      } else if (side.current) {
        REQUIRE(side.current.is_lent());
        auto const at = side.got % parts * part;
        if (must(side.end->try_fetch(side.current, side.target->scatter(at, part)))) {
          side.current = Received{}, ++side.got;
        }
      }
      must(side.end->poll());
    }
  }
  CHECK(are_equal(mine, from_a, 0, part * parts));
  CHECK(are_equal(extra, from_b, 0, part * parts));
  for (auto& side : sides)
    for (auto const& each : side.lent) must(wait_until_over(*side.end, each, patience()));
  CHECK(mine.loans() + extra.loans() + from_a.loans() + from_b.loans() == 0);
}

TEST_CASE("a message that is dropped while it is read is over once that has ended", "[transport]") {
  auto const kind = GENERATE(from_range(std::begin(lending_kinds), std::end(lending_kinds)));
  auto ends = lending_ends(kind);
  if (!ends) return;
  auto& [domain, mine, theirs, a, b] = *ends;
  auto const lent = must(send_lent(a, mine.gather(0, mine.size()), patience()));
  {
    auto const message = next_of(b);
    REQUIRE_FALSE(must(b.try_fetch(message, theirs.scatter(0, theirs.size()))));
    CHECK(error_of(theirs.bytes()) == Errc::already_borrowed);
  }
  auto const deadline = patience();
  while (!must(lent.is_over())) {
    REQUIRE_FALSE(deadline.has_passed());
    must(a.poll());
    if (!may_write(theirs)) CHECK_FALSE(must(lent.is_over()));  // the device may still read
    must(b.poll());
  }
  CHECK(may_write(theirs));
  CHECK(may_write(mine));
  send(a, "goes on");
  CHECK(receive(b) == "goes on");
}

TEST_CASE("what cannot be lent or read is refused, and nothing is on loan for it", "[transport]") {
  auto const kind = GENERATE(from_range(std::begin(lending_kinds), std::end(lending_kinds)));
  auto ends = lending_ends(kind, 1'000);
  if (!ends) return;
  auto& [domain, mine, theirs, a, b] = *ends;
  auto const foreign_domain = must(open_test_device().allocate_protection_domain());
  auto foreign = must(foreign_domain.allocate(1'000));

  CHECK(error_of(a.try_send_lent(mine.gather(0, 1'001))) == Errc::invalid_argument);
  CHECK(error_of(a.try_send_lent(mine.gather(0, 0))) == Errc::invalid_argument);
  CHECK(error_of(a.try_send_lent(GatherElement{})) == Errc::invalid_argument);
  CHECK(error_of(a.try_send_lent(foreign.gather(0, 1))) == Errc::invalid_argument);
  CHECK(error_of(LentMessage{}.is_over()) == Errc::invalid_argument);
  {
    auto draft = must(a.try_draft(1, 1));
    CHECK_FALSE(must(a.try_send_lent(mine.gather(0, 1))));  // as a second draft
  }
  auto const lent = must(send_lent(a, mine.gather(0, 1'000), patience()));
  auto const message = next_of(b);
  CHECK(error_of(a.try_fetch(message, theirs.scatter(0, 1'000))) == Errc::invalid_argument);
  CHECK(error_of(b.try_fetch(Received{}, theirs.scatter(0, 0))) == Errc::invalid_argument);
  CHECK(error_of(b.try_fetch(message, theirs.scatter(0, 999))) == Errc::invalid_argument);
  CHECK(error_of(b.try_fetch(message, theirs.scatter(1, 1'000))) == Errc::invalid_argument);
  CHECK(error_of(b.try_fetch(message, foreign.scatter(0, 1'000))) == Errc::invalid_argument);
  CHECK(error_of(b.try_fetch(message, mine.scatter(0, 1'000))) == Errc::already_borrowed);
  CHECK(theirs.loans() == 0);
  must(fetch(b, message, theirs.scatter(0, 1'000), patience()));
  CHECK(error_of(b.try_fetch(message, theirs.scatter(0, 1'000))) == Errc::invalid_argument);
  must(wait_until_over(a, lent, patience()));

  send(a, "12345");
  auto const copied = next_of(b);
  CHECK_FALSE(copied.is_lent());
  CHECK(error_of(b.try_fetch(copied, theirs.scatter(0, 4))) == Errc::invalid_argument);
  CHECK(must(b.try_fetch(copied, theirs.scatter(7, 5))));
  CHECK(std::memcmp(must(theirs.bytes(7, 5)).data(), "12345", 5) == 0);
  must(a.finish_sending());
  CHECK(error_of(a.try_send_lent(mine.gather(0, 1))) == Errc::finished);
  CHECK(mine.loans() + theirs.loans() + foreign.loans() == 0);
}

TEST_CASE("only what the peer takes is lent to it", "[transport]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto mine = must(domain.allocate(10'000));
  auto [one, other] = must(memory_transports());
  CHECK(error_of(one.try_send_lent(mine.gather(0, 100))) == Errc::unsupported);
  TransportOptions taking{.lent_bytes_max = 8192};
  CHECK(error_of(memory_transports(taking)) == Errc::invalid_argument);
  CHECK(error_of(ReadRing::prepare(domain, taking)) == Errc::invalid_argument);
  CHECK(error_of(SendReceive::prepare(domain, {.lent_bytes_max = 4095})) == Errc::invalid_argument);
  CHECK(error_of(SendReceive::prepare(domain, {.lent_bytes_max = 1ull << 44})) ==
        Errc::invalid_argument);
  CHECK(error_of(SendReceive::prepare(domain, {.message_bytes_max = 39, .lent_bytes_max = 8192})) ==
        Errc::invalid_argument);
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto [a, b] = must(try_ends<SendReceive>(domain, {}, taking));
  CHECK(a.limits().send_lent_bytes_max == 8192);
  CHECK(b.limits().receive_lent_bytes_max == 8192);
  CHECK(error_of(a.try_send_lent(mine.gather(0, 8193))) == Errc::invalid_argument);
  CHECK(error_of(b.try_send_lent(mine.gather(0, 1))) == Errc::unsupported);
  CHECK(mine.loans() == 0);
  CHECK(must(a.try_send_lent(mine.gather(0, 8192))));
}

TEST_CASE("a message that is dropped after its READ has ended is over at once", "[transport]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  TransportOptions const silent{.lent_bytes_max = 4096, .keep_alive = 0ns};
  auto [a, b] = must(try_ends<SendReceive>(domain, silent, silent));
  auto memory = must(domain.allocate(8192));
  auto const lent = must(send_lent(a, memory.gather(0, 4096), patience()));
  auto message = must(receive_message(b, patience()));
  must(b.try_fetch(message, memory.scatter(4096, 4096)));
  while (memory.mutable_bytes(4096, 1).has_error()) must(b.poll());
  settle(b);

  message = {};

  must(wait_until_over(a, lent, patience()));
}

TEST_CASE("who dropped what it was reading ends in order only once the peer is told",
          "[transport]") {
  auto const kind = GENERATE(from_range(std::begin(lending_kinds), std::end(lending_kinds)));
  auto ends = lending_ends(kind);
  if (!ends) return;
  auto& [domain, mine, theirs, a, b] = *ends;
  must(b.finish_sending());
  settle(b);
  auto const lent = must(send_lent(a, mine.gather(0, mine.size()), patience()));
  must(a.finish_sending());
  {
    auto const message = next_of(b);
    REQUIRE_FALSE(must(b.try_fetch(message, theirs.scatter(0, theirs.size()))));
  }
  must(finish(b, patience()));
  { auto const gone = std::move(b); }
  must(finish(a, patience()));
  CHECK(must(lent.is_over()));
}

TEST_CASE("an end in order waits until what is lent was read or dropped", "[transport]") {
  auto const kind = GENERATE(from_range(std::begin(lending_kinds), std::end(lending_kinds)));
  auto ends = lending_ends(kind, 1'000);
  if (!ends) return;
  auto& [domain, mine, theirs, a, b] = *ends;
  auto const lent = must(send_lent(a, mine.gather(0, 1'000), patience()));
  must(a.finish_sending());
  must(b.finish_sending());
  CHECK(error_of(finish(a, within(0ms))) == Errc::timed_out);
  auto const message = next_of(b);
  must(fetch(b, message, theirs.scatter(0, 1'000), patience()));
  must(finish(a, patience()));
  CHECK(must(lent.is_over()));
  CHECK(mine.loans() == 0);
  must(finish(b, patience()));
}

TEST_CASE("bytes lent to a peer that is lost come back, and what it lent is lost", "[transport]") {
  auto const kind = GENERATE(from_range(std::begin(lending_kinds), std::end(lending_kinds)));
  auto ends = lending_ends(kind);
  if (!ends) return;
  auto& [domain, mine, theirs, a, b] = *ends;
  auto const lent = must(send_lent(a, mine.gather(0, mine.size()), patience()));
  auto const message = next_of(b);

  SECTION("the reader ends") {
    b.disconnect();
    CHECK(error_of(wait_until_over(a, lent, patience())) == Errc::peer_lost);
    CHECK(error_of(b.try_fetch(message, theirs.scatter(0, theirs.size()))) == Errc::channel_broken);
  }
  SECTION("the reader ends in the middle") {
    static_cast<void>(must(b.try_fetch(message, theirs.scatter(0, theirs.size()))));
    b.disconnect();
    CHECK(error_of(wait_until_over(a, lent, patience())) == Errc::peer_lost);
  }
  SECTION("the sender ends") {
    a.disconnect();
    CHECK(error_of(lent.is_over()) == Errc::channel_broken);
    CHECK(error_of(fetch(b, message, theirs.scatter(0, theirs.size()), patience())) ==
          Errc::peer_lost);
  }
  SECTION("the sender goes") {
    auto gone = std::move(a);
    { auto const at_once = std::move(gone); }
    CHECK(error_of(lent.is_over()) == Errc::channel_broken);
    CHECK(error_of(fetch(b, message, theirs.scatter(0, theirs.size()), patience())) ==
          Errc::peer_lost);
  }
  CHECK(may_write(mine));
  CHECK(may_write(theirs));
  CHECK(mine.loans() + theirs.loans() == 0);
  CHECK(message.length() == lent_bytes);
}
