// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever its peer announces, says and puts into its ring, a ReadRing accepts only what its
// credits allow. Method: the peer is a bare channel that plays the protocol, and breaks it in one
// place.
#include <array>
#include <string>

#include "transport/read_ring_peer.hpp"

namespace lend::test::read_ring {

TEST_CASE("a peer that announces by the rules is read, and told once all is read", "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make();
  it.put(0, 100, 0);
  it.put(2, 0, 2);
  it.say({.tail = 2});
  it.say({.tail = 3});
  CHECK(receive(it.end).size() == 100);
  CHECK(receive(it.end).empty());
  CHECK(it.hear(0) == std::array{0u, 0u, 3u});  // both in one
  // In a window of four each message is told as it is let go of.
  CHECK(it.hear(1) == std::array{1u << 30 | 1u << 20, 0u, 3u});
  CHECK(it.hear(2) == std::array{1u << 30 | 2u << 20, 0u, 3u});
  send(it.end, "answer");
  CHECK(it.hear(3) == std::array{2u << 20, 1u, 3u});
  it.say({.kind = Kind::finish, .tail = 3, .read = 1});
  CHECK(must(receive_message(it.end, patience())).is_end());
}

TEST_CASE("at most two tails are announced and not read, and the finish goes at once",
          "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make();
  CHECK(fill(it.end) == 4);
  CHECK(it.hear(0)[1] == 1);
  CHECK(it.hear(1)[1] == 2);
  CHECK_FALSE(must(it.notes[2].poll()));
  it.say({.read = 1});
  CHECK(it.hear(2)[1] == 4);  // one note announces what was sent meanwhile
  CHECK(it.end.sends_in_flight() >= 3);
  must(it.end.finish_sending());
  CHECK(it.hear(3) == std::array{2u << 30, 4u, 0u});
  it.say({.read = 4});
  while (it.end.sends_in_flight() > 0) must(wait_for_change(it.end, patience()));
}

TEST_CASE("an end that only sends hears what was read behind credits that it has not taken",
          "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make();
  send(it.end, "one");
  it.say({.kind = Kind::credit, .read = 1, .freed = 1});
  send(it.end, "two");
  send(it.end, "three");
  it.say({.read = 2});
  send(it.end, "four");
  must(it.notes[3].wait(patience()));  // which does not have the end polled
  CHECK(it.hear(3)[1] == 4);
}

TEST_CASE("a peer of a ReadRing that breaks the rules is disconnected with what it did",
          "[transport]") {
  if (lacks_endpoints()) return;
  auto const [breaks, says] = GENERATE(table<void (*)(Victim&), std::string>({
      {[](Victim& it) { it.say({.kind = Kind::none, .tail = 1}); }, "a note that means nothing"},
      {[](Victim& it) { it.say({.tail = 1, .length = 1}); }, "a note that means nothing"},
      {[](Victim& it) { it.say({.tail = 1, .zero = 1}); }, "a note that means nothing"},
      {[](Victim& it) { it.say({.tail = 1}, 12); }, "a note of another length"},
      {[](Victim& it) { it.say({}); }, "a note that says nothing"},
      {[](Victim& it) { it.say({.kind = Kind::credit}); }, "a credit that frees nothing"},
      {[](Victim& it) { it.say({.read = 1}); }, "read or freed more than was announced"},
      {[](Victim& it) { it.say({.kind = Kind::credit, .freed = 1}); }, "freed more than was sent"},
      {[](Victim& it) {
         send(it.end, "unread");
         it.say({.kind = Kind::credit, .freed = 1});
       },
       "read or freed more than was announced"},
      {[](Victim& it) { it.say({.tail = 17}); }, "announced more than its ring has room for"},
      {[](Victim& it) { it.say({.tail = UINT32_MAX}); }, "announced more than its ring has"},
      {[](Victim& it) { it.put(0, 1, 7), it.say({.tail = 1}); }, "no message where its note"},
      {[](Victim& it) { it.put(0, 100, 0), it.say({.tail = 1}); }, "a message where none can be"},
      {[](Victim& it) { it.put(0, 1u << 20, 0), it.say({.tail = 16}); },
       "a message where none can be"},
      {[](Victim& it) { it.put(0, 249, 0), it.say({.tail = 5}); }, "longer than the largest"},
      {[](Victim& it) { it.put(0, goes_on_at_0, 0), it.say({.tail = 16}); },
       "a message where none can be"},
      {[](Victim& it) {
         it.put(0, 1, 0);
         it.put(1, goes_on_at_0, 1);
         it.put(0, 1, 16);
         it.say({.tail = 16});
       },
       "no message where its note"},
      {[](Victim& it) {
         for (std::uint32_t i = 0; i <= window; ++i) it.put(i, 0, i);
         it.say({.tail = window + 1});
         while (!must(it.end.poll())) {
         }
       },
       "more than this end has room for"},
      {[](Victim& it) {
         it.say({.kind = Kind::finish});
         it.say({.tail = 1});
       },
       "data after it had finished"},
      {[](Victim& it) {
         it.say({.kind = Kind::finish});
         it.say({.kind = Kind::finish});
       },
       "data after it had finished"},
  }));
  auto it = Victim::make();
  breaks(it);
  auto const error = it.broken();
  CAPTURE(error.message(), says);
  CHECK(error == Errc::incompatible_peer);
  CHECK(error.message().find(says) != std::string::npos);
  CHECK(error_of(it.end.try_draft(1, 1)) == Errc::incompatible_peer);
}

TEST_CASE("a peer cannot have a message overwritten that is held", "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make();
  for (std::uint32_t at : {0u, 4u, 8u, 12u}) it.put(at, message_max, at);
  it.say({.tail = 16});
  auto const held = must(receive_message(it.end, patience()));
  REQUIRE(held.bytes().size() == message_max);
  must(it.ring.mutable_bytes())[header] = std::byte{'!'};
  it.say({.tail = 20});
  for (int i = 0; i < 3; ++i) CHECK(receive(it.end).size() == message_max);
  CHECK(it.broken() == Errc::incompatible_peer);
  CHECK(text_of(held)[0] == '\0');
}

TEST_CASE("the peer of a ReadRing can read its ring and write nothing", "[transport]") {
  if (lacks_endpoints()) return;
  auto it = Victim::make();
  auto const terms = it.lender.terms();
  auto const at =
      std::uint64_t{load(std::span{terms}.subspan(8))} << 32 | load(std::span{terms}.subspan(12));
  RemoteRegion const ring{at, ring_bytes, load(std::span{terms}.subspan(16))};
  must(it.peer.read({it.memory.scatter(512, 64), ring.slice(0, 64)}, patience()));
  CHECK_FALSE(it.peer.write({it.memory.gather(512, 64), ring.slice(0, 64)}, patience()));
  CHECK(error_of(receive_message(it.end, patience())) == Errc::peer_lost);
}

TEST_CASE("each direction of ReadRings has the smaller ring, and messages that fit it",
          "[transport]") {
  if (lacks_endpoints()) return;
  auto [a, b] = ends<ReadRing>({.window = 8, .message_bytes_max = 100, .ring_bytes = 4'096},
                               {.window = 4, .message_bytes_max = 100'000});
  CHECK(a.limits().send_bytes_max == 1'016);
  CHECK(b.limits().receive_bytes_max == 1'016);
  CHECK(b.limits().send_bytes_max == 100);
  CHECK(a.limits().hold_bytes_max == 1'024);
  CHECK(b.limits().hold_bytes_max == 1'024);
  std::string const large(1'016, 'x');
  for (int i = 0; i < 9; ++i) {
    send(a, large);
    CHECK(receive(b) == large);
    send(b, "back");
    CHECK(receive(a) == "back");
  }
}

TEST_CASE("a ring that one READ does not fetch is read in parts", "[transport]") {
  if (lacks_endpoints()) return;
  auto const domain = must(open_test_device().allocate_protection_domain());
  TransportOptions large;
  large.message_bytes_max = 1'000'000;
  auto [a, b] = accompanied(must(try_any_ends<ReadRing>(domain, large)));
  std::string text(1'000'000, ' ');
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t at = 0; at < text.size(); ++at) text[at] = char('a' + (at * 7 + i) % 26);
      send(a, text);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t at = 0; at < text.size(); ++at) text[at] = char('a' + (at * 7 + i) % 26);
      REQUIRE(receive(b) == text);
    }
  }
}

TEST_CASE("options of a ReadRing have defaults that fit each other, or are refused with the limit",
          "[transport]") {
  auto const domain = must(open_test_device().allocate_protection_domain());
  auto const [asked, words] = GENERATE(table<TransportOptions, std::string>({
      {{.ring_bytes = 1'000}, "ring of 1000 bytes; choose a multiple of 256"},
      {{.message_bytes_max = 249, .ring_bytes = 1'024}, "for these messages at least 1280"},
      {{.kind = TransportKind::credit_ring}, "ask for kind credit_ring, and this is read_ring"},
  }));
  auto const refused = error_of(ReadRing::prepare(domain, asked));
  CHECK(refused == Errc::invalid_argument);
  CAPTURE(refused.message());
  CHECK(refused.message().find(words) != std::string::npos);
}

}  // namespace lend::test::read_ring
