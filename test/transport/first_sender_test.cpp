// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: where only one end may send first, it does so unasked, and the other sends nothing before.
// Method: ends over memory, told who is first.
#include <transport/end.hpp>
#include <transport/memory_line.hpp>

#include <memory>
#include <string_view>
#include <utility>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace lend::transport;
using verbs::FirstSender;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t window = 4, message_bytes = 64;

struct TwoMemoryEnds {
  std::shared_ptr<MemoryWire> wire =
      must(MemoryWire::make({}, window + word_receives, message_bytes));

  std::unique_ptr<End> make(std::size_t side, FirstSender first) {
    auto const sizes = flow::CreditSizes::of(window);
    TransportLimits const limits{.kind = TransportKind::memory,
                                 .send_bytes_max = message_bytes,
                                 .receive_bytes_max = message_bytes,
                                 .window = window,
                                 .hold_max = 3,
                                 .hold_bytes_max = 3 * message_bytes};
    return std::make_unique<End>(std::make_unique<MemoryLine>(wire, side), limits,
                                 End::Sizes{.out = sizes, .in = sizes}, first);
  }
  std::size_t words_for(std::size_t side) const { return wire->sides[side].count; }
};

bool sends_a_byte(End& end) {
  auto draft = must(end.try_draft(1, 1));
  if (!draft) return false;
  must(std::move(draft).send(1));
  return true;
}

}  // namespace

TEST_CASE("the end that accepted sends nothing before the other's first word", "[transport]") {
  TwoMemoryEnds both;
  auto accepted = both.make(0, FirstSender::peer);
  bool const finishes = GENERATE(false, true);
  if (finishes)
    must(accepted->finish_sending());
  else
    CHECK_FALSE(sends_a_byte(*accepted));
  CHECK(both.words_for(1) == 0);
  CHECK(accepted->sends_in_flight() == (finishes ? 1u : 0u));

  auto connected = both.make(1, FirstSender::own);
  CHECK(both.words_for(0) == 1);
  CHECK(must(accepted->poll()));
  if (!finishes) CHECK(sends_a_byte(*accepted));
  CHECK(both.words_for(1) == 1);
  CHECK(must(connected->poll()));
  CHECK(must(connected->try_receive()).is_end() == finishes);
}

TEST_CASE("a greeting is repeated until the peer has sent something", "[transport]") {
  TwoMemoryEnds both;
  auto accepted = both.make(0, FirstSender::peer);
  auto connected = both.make(1, FirstSender::own);
  CHECK_FALSE(connected->look_again().has_passed());
  auto const limit = within(20s);
  while (both.words_for(0) < 2) {
    REQUIRE_FALSE(limit.has_passed());
    must(connected->poll());
  }
  CHECK(must(accepted->poll()));
  CHECK(sends_a_byte(*accepted));
  CHECK(must(connected->poll()));
  CHECK(must(connected->try_receive()));
  CHECK(connected->look_again().is_never());
}

TEST_CASE("more greetings than are owed are refused", "[transport]") {
  TwoMemoryEnds both;
  bool const is_awaited = GENERATE(true, false);
  auto accepted = both.make(0, is_awaited ? FirstSender::peer : FirstSender::either);
  MemoryLine connected{both.wire, 1};
  for (std::uint32_t i = 0; i < (is_awaited ? flow::greetings_max : 0); ++i) {
    CHECK(must(connected.send({WordKind::credit, 0, 0}, 0)));
    CHECK_FALSE(must(accepted->try_receive()));
  }
  CHECK(must(connected.send({WordKind::credit, 0, 0}, 0)));
  CHECK(error_of(accepted->try_receive()) == Errc::incompatible_peer);
}
