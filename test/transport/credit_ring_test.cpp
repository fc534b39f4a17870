// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever its peer writes and says, a CreditRing accepts only what its credits allow.
// Method: the peer is a bare channel that plays the protocol, and breaks it in one place.
#include <lend/transport/waiting.hpp>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

namespace lend::test::credit_ring {

namespace {

constexpr std::uint32_t cell = 64, window = 4, message_max = 256, ring_bytes = 1'024;
TransportOptions const options{.window = window,
                               .message_bytes_max = message_max,
                               .ring_bytes = ring_bytes,
                               .lent_bytes_max = 4096};

enum class Kind : std::uint32_t { data = 0, credit = 1, finish = 2, lent = 3 };
constexpr std::uint32_t word(Kind kind, std::uint32_t length = 0, std::uint32_t freed = 0) {
  return std::uint32_t(kind) << 30 | freed << 20 | length;
}

std::uint64_t number_at(TransportTerms const& terms, std::size_t from, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | std::uint64_t(terms[from + i]);
  return value;
}

/// A CreditRing, and the bare channel that is its peer.
struct Victim {
  ProtectionDomain domain;
  MemoryRegion memory;
  PreparedCreditRing lender;  // of the terms that the peer claims as its own
  RemoteRegion ring;          // the victim's
  Channel peer;
  CreditRing end;
  std::vector<PendingWork> words;  // that it sends

  static Victim make(TransportOptions const& asked = options) {
    auto const domain = must(open_test_device().allocate_protection_domain());
    auto memory = must(domain.allocate(ring_bytes));
    std::vector<PendingWork> words;
    words.reserve(8);
    auto victim = must(CreditRing::prepare(domain, asked));
    auto lender = must(CreditRing::prepare(domain, asked));
    auto prepared = must(channel_builder().protection_domain(domain).build());
    for (int i = 0; i < 8; ++i)
      words.push_back(must(prepared.post_receive(Receive::only_immediate())));
    RemoteRegion const ring{number_at(victim.terms(), 8, 8), number_at(victim.terms(), 20, 4),
                            static_cast<std::uint32_t>(number_at(victim.terms(), 16, 4))};
    auto const itself = prepared.endpoint();
    auto peer = must(std::move(prepared).handshake(victim.endpoint()));
    auto end = must(std::move(victim).handshake(itself, lender.terms()));
    return {domain,          std::move(memory), std::move(lender), ring,
            std::move(peer), std::move(end),    std::move(words)};
  }

  /// Writes so many bytes at a cell, and says so by this word.
  void write(std::uint32_t at, std::uint32_t length, std::uint32_t says) {
    must(peer.write(
        Write{memory.gather(0, length), ring.slice(std::size_t{at} * cell, length)}.with_immediate(
            says),
        patience()));
  }
  void say(std::uint32_t says) { must(peer.send(Send::only_immediate(says), patience())); }

  /// What the end says once it has received all that came.
  Error broken() {
    for (;;) {
      auto const came = receive_message(end, patience());
      if (!came) return came.error();
      if (came.value().is_end() && !end.try_draft(1, 1)) return error_of(end.try_draft(1, 1));
    }
  }
};

bool lacks_rings() {
  auto const context = open_test_device();
  return lacks(context, &DeviceCapabilities::endpoints) ||
         lacks(context, &DeviceCapabilities::immediates);
}

}  // namespace

TEST_CASE("a peer that writes by the rules is a peer", "[transport]") {
  if (lacks_rings()) return;
  auto it = Victim::make();
  must(it.memory.mutable_bytes())[0] = std::byte{'x'};
  it.write(0, 1, word(Kind::data, 1));
  CHECK(receive(it.end) == "x");
  it.say(word(Kind::data));
  CHECK(receive(it.end).empty());
  it.say(word(Kind::finish));
  CHECK(must(receive_message(it.end, patience())).is_end());
}

TEST_CASE("a peer of a ring that breaks the rules is disconnected with what it did",
          "[transport]") {
  if (lacks_rings()) return;
  auto const [breaks, says] = GENERATE(table<void (*)(Victim&), std::string>({
      {[](Victim& it) { it.say(word(Kind::lent)); }, "a word that means nothing"},
      {[](Victim& it) { it.say(word(Kind::credit, 1)); }, "read what was not lent"},
      {[](Victim& it) { it.say(word(Kind::credit, 16)); }, "a word that means nothing"},
      {[](Victim& it) { it.write(0, 2, word(Kind::data, 1)); }, "of another length"},
      {[](Victim& it) { it.say(word(Kind::data, 1)); }, "of another length"},
      {[](Victim& it) { it.write(0, 64, word(Kind::credit)); }, "of another length"},
      {[](Victim& it) { it.write(0, 257, word(Kind::data, 257)); }, "longer than the largest"},
      {[](Victim& it) { it.say(word(Kind::credit, 0, 1)); }, "freed more than was sent"},
      {[](Victim& it) { it.say(word(Kind::credit)); }, "a credit that frees nothing"},
      {[](Victim& it) {
         for (std::uint32_t i = 0; i <= window; ++i) it.say(word(Kind::data));
         static_cast<void>(it.end.poll());  // takes all, and gives no room back
       },
       "more than this end has room for"},
      {[](Victim& it) {
         it.say(word(Kind::finish));
         it.say(word(Kind::data));
       },
       "data after it had finished"},
      {[](Victim& it) {
         it.say(word(Kind::finish));
         it.say(word(Kind::finish));
       },
       "finished twice"},
      {[](Victim& it) { must(it.peer.send({it.memory.gather(0, 0)}, patience())); },
       "a word that means nothing"},
  }));
  auto it = Victim::make();
  breaks(it);
  auto const error = it.broken();
  CHECK(error == Errc::incompatible_peer);
  CAPTURE(error.message());
  CHECK(error.message().find(says) != std::string::npos);
  CHECK(error_of(it.end.try_draft(1, 1)) == Errc::incompatible_peer);
}

TEST_CASE("a peer that lends what cannot be read, or reads what was not lent, is disconnected",
          "[transport]") {
  if (lacks_rings()) return;
  constexpr std::uint32_t note_bytes = 40;
  struct Note {
    RemoteRegion bytes{0x1000, 10, 77, RemoteAccess::read};
    unsigned place = 0, behind = 0;
    std::byte damaged{};
  };
  auto const lend_by = [](Victim& it, std::uint32_t at, Note const& note) {
    auto const bytes = must(it.memory.mutable_bytes(0, note_bytes));
    std::ranges::fill(bytes, std::byte{});
    std::ranges::copy(note.bytes.encode(), bytes.begin());
    bytes[0] ^= note.damaged;
    bytes[RemoteRegion::encoded_size] = std::byte(note.place);
    bytes[note_bytes - 1] = std::byte(note.behind);
    it.write(at, note_bytes, word(Kind::lent, note_bytes));
  };
  auto it = Victim::make();
  std::string says = "lent bytes that no one can read";
  SECTION("no bytes") {
    lend_by(it, 0, {.bytes = {0x1000, 0, 77, RemoteAccess::read}});
  }
  SECTION("not to be read") {
    lend_by(it, 0, {.bytes = {0x1000, 10, 77, RemoteAccess::write}});
  }
  SECTION("a fifth place") {
    lend_by(it, 0, {.place = 4});
  }
  SECTION("more than a note says") {
    lend_by(it, 0, {.behind = 1});
  }
  SECTION("more than this end takes") {
    lend_by(it, 0, {.bytes = {0x1000, 4097, 77, RemoteAccess::read}});
    says = "longer than the largest";
  }
  SECTION("to an end that takes none") {
    auto asked = options;
    asked.lent_bytes_max = 0;
    it = Victim::make(asked);
    lend_by(it, 0, {});
    says = "this end takes none";
  }
  SECTION("no region") {
    lend_by(it, 0, {.damaged = std::byte{0xff}});
  }
  SECTION("a place twice") {
    lend_by(it, 0, {.place = 2});
    lend_by(it, 1, {.place = 2});
    static_cast<void>(it.end.poll());  // takes both
    says = "in place of one that is not over";
  }
  SECTION("over twice") {
    REQUIRE(must(it.end.try_send_lent(it.memory.gather(0, 1))));
    it.say(word(Kind::credit, 1));
    it.say(word(Kind::credit, 1));
    says = "read what was not lent";
  }
  auto const error = it.broken();
  CHECK(error == Errc::incompatible_peer);
  CAPTURE(error.message());
  CHECK(error.message().find(says) != std::string::npos);
}

TEST_CASE("bytes that a peer lent and that its device refuses break the connection, and no more",
          "[transport]") {
  if (lacks_rings()) return;
  auto it = Victim::make();
  auto target = must(it.domain.allocate(10));
  auto const bytes = must(it.memory.mutable_bytes(0, 40));
  std::ranges::fill(bytes, std::byte{});
  std::ranges::copy(RemoteRegion{0x1000, 10, 77, RemoteAccess::read}.encode(), bytes.begin());
  it.write(0, 40, word(Kind::lent, 40));
  auto const message = must(receive_message(it.end, patience()));

  CHECK(error_of(fetch(it.end, message, target.scatter(0, 10), patience())) == Errc::peer_lost);

  CHECK(target.mutable_bytes().has_value());
}

TEST_CASE("a peer that sends bytes where the receives have none is disconnected", "[transport]") {
  if (lacks_rings()) return;
  auto it = Victim::make();
  CHECK_FALSE(it.peer.send({it.memory.gather(0, 1)}, patience()));
  // SoftRoCE tells the sender alone. Source: Linux drivers/infiniband/sw/rxe/rxe_resp.c.
  bool const is_told = open_test_device().kind() == DeviceKind::soft;
  CHECK(it.broken() == (is_told ? Errc::incompatible_peer : Errc::peer_lost));
}

TEST_CASE("more cells than the ring has are refused, though messages are few", "[transport]") {
  if (lacks_rings()) return;
  auto it = Victim::make();
  std::array<Received, 3> held;
  // 3 messages of 4 cells take 12 of 16: one more of 4 is allowed, then none of any length.
  for (std::uint32_t i = 0; i < 3; ++i) {
    it.write(i * 4, message_max, word(Kind::data, message_max));
    held[i] = must(receive_message(it.end, patience()));
  }
  held[1] = Received{};  // free is only what lies before the oldest that is held
  it.write(12, 1, word(Kind::data, 1));
  CHECK(receive(it.end).size() == 1);
  it.write(0, 1, word(Kind::data, 1));
  CHECK(it.broken() == Errc::incompatible_peer);
}

TEST_CASE("the peer is told of each quarter of the window, and no more often", "[transport]") {
  if (lacks_rings()) return;
  auto it = Victim::make({.window = 16, .message_bytes_max = message_max, .ring_bytes = 8'192});
  for (std::uint32_t i = 0; i < 32; ++i) {
    it.write(i, 1, word(Kind::data, 1));
    CHECK(receive(it.end).size() == 1);
  }
  for (std::uint32_t i = 0; i < 8; ++i)
    CHECK(must(it.words[i].wait(patience())).immediate == word(Kind::credit, 0, (i + 1) * 4));
  // A ninth word would have found no receive.
  static_cast<void>(must(it.end.poll()));
  CHECK_FALSE(must(it.end.try_receive()));
}

TEST_CASE(
    "a peer that uses all its credits finds a receive for each, though the program does nothing",
    "[transport]") {
  if (lacks_rings()) return;
  auto it = Victim::make({.window = 16, .message_bytes_max = message_max, .ring_bytes = 8'192});
  // So many that their receives are not posted again yet.
  for (std::uint32_t i = 0; i < 7; ++i) {
    it.write(i, 1, word(Kind::data, 1));
    CHECK(receive(it.end).size() == 1);
  }
  for (int i = 0; i < 7; ++i) send(it.end, "x");  // which tell that all 7 are free
  for (std::uint32_t freed = 1; freed <= 7; ++freed) it.say(word(Kind::credit, 0, freed));
  for (std::uint32_t i = 0; i < 16; ++i) it.write(7 + i, 1, word(Kind::data, 1, 7));
  it.say(word(Kind::finish, 0, 7));
  for (int i = 0; i < 16; ++i) CHECK(receive(it.end).size() == 1);
  CHECK(must(receive_message(it.end, patience())).is_end());
}

TEST_CASE("a peer that writes into a message which is held changes its bytes and nothing else",
          "[transport]") {
  if (lacks_rings()) return;
  auto it = Victim::make();
  it.write(0, 4, word(Kind::data, 4));
  auto const held = must(receive_message(it.end, patience()));
  must(it.memory.mutable_bytes())[0] = std::byte{'!'};
  must(it.peer.write({it.memory.gather(0, ring_bytes), it.ring}, patience()));
  CHECK(text_of(held)[0] == '!');
  it.write(1, 4, word(Kind::data, 4));
  CHECK(receive(it.end).size() == 4);
}

TEST_CASE("the peer of a ring can write there and do nothing else", "[transport]") {
  if (lacks_rings()) return;
  auto it = Victim::make();
  auto const refused =
      error_of(it.peer.read({it.memory.scatter(0, 8), it.ring.slice(0, 8)}, patience()));
  CHECK(refused == Errc::work_failed);
  CHECK(error_of(receive_message(it.end, patience())) == Errc::peer_lost);
}

TEST_CASE("each direction of rings has its receiver's sizes", "[transport]") {
  if (lacks_rings()) return;
  auto [a, b] = ends<CreditRing>({.window = 8, .message_bytes_max = 100, .ring_bytes = 512},
                                 {.window = 4, .message_bytes_max = 100'000});
  CHECK(a.limits().send_bytes_max == 100'000);
  CHECK(b.limits().send_bytes_max == 100);
  CHECK(a.limits().hold_bytes_max == 128);
  for (int i = 0; i < 4; ++i) send(a, std::to_string(i));
  for (int i = 0; i < 8; ++i) send(b, std::to_string(i));
  CHECK(fill(a) == 0);
  CHECK(fill(b) == 0);
  for (int i = 0; i < 4; ++i) CHECK(receive(b) == std::to_string(i));
  std::string const large(100'000, 'x');
  for (int i = 0; i < 9; ++i) {
    send(a, large);
    CHECK(receive(b) == large);
  }
}

TEST_CASE("options of a ring have defaults that fit each other, or are refused with the limit",
          "[transport]") {
  if (lacks_rings()) return;
  auto const domain = must(open_test_device().allocate_protection_domain());
  auto const limits = [&](TransportOptions const& asked) {
    return must(try_ends<CreditRing>(domain, asked, asked)).first.limits();
  };
  CHECK(limits({}).window == 64);
  CHECK(limits({}).receive_bytes_max == 32'768);
  CHECK(limits({}).hold_bytes_max == 65'536);
  CHECK(limits({.ring_bytes = 1'024}).receive_bytes_max == 256);
  CHECK(limits({.message_bytes_max = 1'000'000}).hold_bytes_max == 1'000'000);
  auto const [asked, words] = GENERATE(table<TransportOptions, std::string>({
      {{.ring_bytes = 1'000}, "ring of 1000 bytes; choose a multiple of 256"},
      {{.message_bytes_max = 1'000, .ring_bytes = 3'840}, "for these messages at least 4096"},
      {{.window = 3}, "window of 3 messages"},
      {{.kind = TransportKind::send_receive}, "ask for kind send_receive, and this is credit_ring"},
  }));
  auto const refused = error_of(CreditRing::prepare(domain, asked));
  CHECK(refused == Errc::invalid_argument);
  CAPTURE(refused.message());
  CHECK(refused.message().find(words) != std::string::npos);
}

TEST_CASE("a device without immediates has no rings, and is told what to take", "[transport]") {
  auto const context = open_test_device();
  if (context.capabilities().immediates) return skip(context, "has immediates");
  auto const refused =
      error_of(CreditRing::prepare(must(context.allocate_protection_domain()), {}));
  CHECK(refused == Errc::unsupported);
  CHECK(refused.message().find("SendReceive") != std::string::npos);
}

}  // namespace lend::test::credit_ring
