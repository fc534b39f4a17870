// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what goes between the ends of a transport is what stands below and no more, so that a
// program that has nothing of lend's can be one of them. Method: verbs_peer.c posts, and what it
// posts is made here, byte by byte.
//
// All numbers are big-endian. Each end tells its terms before they connect, of itself as receiver:
//   1 version: 1   1 kind   2 window   4 longest message   8 address   4 key   4 bytes of its ring
//   4 zero   4 CRC-32 of what stands before. Without a ring address, key and bytes are 0.
// Each message has a word: 2 bits kind (0 data, 1 credit, 2 finish)
//   10 bits: messages of the other direction that its sender has let go of, modulo 1024
//   20 bits: length of the data
// SendReceive (kind 1): a send of 4 word, 4 zero, data.
// CreditRing (2): data is a write with its word as the immediate, at the next cell of 64 bytes, or
//   at 0 if it would cross the end; other words are sends of an immediate alone.
// ReadRing (3): data lies at such a cell of its sender's ring, behind 4 length, 4 position (cells
//   before it, of all times). A note, a send of 4 word, 4 tail, 4 cells read of the peer's ring,
//   4 zero, says that it can be READ.
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/read_ring.hpp>
#include <lend/transport/send_receive.hpp>
#include <lend/transport/waiting.hpp>

#include "peer_ends.hpp"

#include <algorithm>

using namespace lend;
using namespace lend::test;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t window = 8, message_max = 248, ring_bytes = 1024, cell = 64;
constexpr std::uint32_t data = 0, credit = 1, no_more = 2;

struct WireWord {
  std::uint32_t kind = data, freed = 0, length = 0;
  bool operator==(WireWord const&) const = default;
};
std::uint32_t bits_of(WireWord const& word) {
  return word.kind << 30 | word.freed % 1024 << 20 | word.length;
}
WireWord word_of(std::uint32_t bits) {
  return {bits >> 30, bits >> 20 & 1023, bits & 0xf'ffff};
}

void append(Bytes& to, std::uint64_t number, unsigned bytes) {
  while (bytes-- > 0) to.push_back(std::byte(number >> 8 * bytes));
}
std::uint64_t number_at(std::span<std::byte const> bytes, std::size_t at, unsigned count = 4) {
  std::uint64_t number = 0;
  for (auto const byte : bytes.subspan(at, count)) number = number << 8 | std::uint64_t(byte);
  return number;
}

TransportTerms terms_of(std::uint32_t kind, std::uint64_t address, std::uint32_t key,
                        std::uint32_t ring) {
  Bytes bytes;
  append(bytes, 2, 1);
  append(bytes, kind, 1);
  append(bytes, window, 2);
  append(bytes, message_max, 4);
  append(bytes, address, 8);
  append(bytes, key, 4);
  append(bytes, ring, 4);
  append(bytes, 0, 4);
  std::uint32_t crc = UINT32_MAX;
  for (auto const byte : bytes) {
    crc ^= std::uint32_t(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 * 0xedb8'8320);
  }
  append(bytes, ~crc, 4);
  TransportTerms terms{};
  std::ranges::copy(bytes, terms.begin());
  return terms;
}

/// An end of lend's, and the verbs program at the other.
template <class Kind>
class WireEnds {
 public:
  /// `receive` are the pieces of each of the program's receives, from where its memory begins.
  WireEnds(std::uint32_t kind, std::uint32_t ring, std::uint32_t receive) : receive_{receive} {
    auto prepared = must(Kind::prepare(
        domain_, {.window = window, .message_bytes_max = message_max, .ring_bytes = ring}));
    auto const ours = prepared.endpoint();
    auto const said = prepared.terms();
    ring_ = {number_at(said, 8, 8), ring, std::uint32_t(number_at(said, 16))};
    CHECK(said == terms_of(kind, ring_.address(), ring_.key(), ring));
    auto [theirs, memory] = introduction_of(peer, ours);
    theirs.mtu_bytes = std::min(theirs.mtu_bytes, ours.mtu_bytes);
    for (std::size_t slot = 0; slot < window + 9; ++slot) post_receive(slot);
    REQUIRE(peer.ask(connect_to(ours, theirs.mtu_bytes)) == "ok");
    auto const terms = ring == 0 ? terms_of(kind, 0, 0, 0)
                                 : terms_of(kind, memory.address() + ring_at, memory.key(), ring);
    end.emplace(must(std::move(prepared).handshake(theirs, terms)));
  }

  struct Arrival {
    Bytes bytes{};
    std::uint32_t immediate = 0;
  };
  /// What the program receives next; its receive is posted again.
  Arrival next() {
    for (;;) {
      std::istringstream line{peer.ask("wait")};
      std::size_t id = 0, length = 0;
      int status = 0, opcode = 0;
      std::string immediate;
      line >> id >> status >> opcode >> length >> immediate;
      REQUIRE(!line.fail());
      REQUIRE(status == 0);
      if (id < first_receive) continue;  // what it sent
      Arrival arrival;
      if (receive_ > 0) arrival.bytes = get((id - first_receive) * slot_bytes, length);
      if (immediate != "-") arrival.immediate = std::uint32_t(std::stoul(immediate));
      post_receive(id - first_receive);
      return arrival;
    }
  }
  void put(std::size_t at, std::span<std::byte const> bytes) {
    std::string text = "put " + std::to_string(at) + ' ';
    for (auto const byte : bytes) {
      std::array<char, 3> two{};
      std::snprintf(two.data(), two.size(), "%02x", unsigned(byte));
      text += two.data();
    }
    REQUIRE(peer.ask(text) == "ok");
  }
  Bytes get(std::size_t at, std::size_t length) {
    if (length == 0) return {};
    auto const text = peer.ask("get" + words({at, length}));
    REQUIRE(text.size() == 2 * length);
    Bytes bytes;
    for (std::size_t i = 0; i < text.size(); i += 2)
      bytes.push_back(std::byte(std::stoul(text.substr(i, 2), nullptr, 16)));
    return bytes;
  }
  /// Sends them as one message, or writes or reads so many there. The rest are options.
  void post(std::string const& operation, std::span<std::byte const> bytes,
            std::string const& options = "") {
    auto const at = send_at + next_send_++ % 64 * slot_bytes;
    if (!bytes.empty()) put(at, bytes);
    auto const pieces =
        bytes.empty() ? "-" : words({at}).substr(1) + ':' + words({bytes.size()}).substr(1);
    REQUIRE(peer.ask(operation + " 1 " + pieces + options) == "ok");
  }
  /// In lend's ring.
  [[nodiscard]] std::string there(std::uint32_t at) const {
    std::ostringstream text;
    text << " to=" << ring_.address() + at * cell << " key=" << std::hex << ring_.key();
    return text.str();
  }

  static constexpr std::size_t slot_bytes = 512, first_receive = 100, send_at = 64 * 1024,
                               ring_at = 128 * 1024;

 private:
  void post_receive(std::size_t slot) {
    auto const pieces =
        receive_ == 0 ? "-"
                      : words({slot * slot_bytes}).substr(1) + ':' + words({receive_}).substr(1);
    REQUIRE(peer.ask("receive" + words({first_receive + slot}) + ' ' + pieces) == "ok");
  }

  Context context_ = open_test_device();
  ProtectionDomain domain_ = must(context_.allocate_protection_domain());
  RemoteRegion ring_{};
  std::uint32_t receive_;
  std::size_t next_send_ = 0;

 public:
  VerbsPeer peer{context_.name(), 0x12'3456};
  std::optional<Kind> end{};
};

struct Heard {
  WireWord word{};
  Bytes data{};
};

class SendReceiveWire : public WireEnds<SendReceive> {
 public:
  SendReceiveWire() : WireEnds{1, 0, 8 + message_max} {}
  void say(WireWord const& word, Bytes const& bytes = {}) {
    Bytes whole;
    append(whole, bits_of(word), 4);
    append(whole, 0, 4);
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    post("send", whole);
  }
  Heard hear() {
    auto const bytes = next().bytes;
    REQUIRE(bytes.size() >= 8);
    CHECK(number_at(bytes, 4) == 0);
    return {word_of(std::uint32_t(number_at(bytes, 0))), {bytes.begin() + 8, bytes.end()}};
  }
};

/// Where the next message lies in a ring.
struct Place {
  std::uint32_t tail = 0;
  std::uint32_t take(std::size_t bytes) {
    auto const cells = std::max<std::uint32_t>(1, (std::uint32_t(bytes) + cell - 1) / cell);
    if (tail + cells > ring_bytes / cell) tail = 0;
    return std::exchange(tail, tail + cells);
  }
};

class CreditRingWire : public WireEnds<CreditRing> {
 public:
  CreditRingWire() : WireEnds{2, ring_bytes, 0} {}
  void say(WireWord const& word, Bytes const& bytes = {}) {
    auto const immediate = " imm=" + std::to_string(bits_of(word));
    if (word.kind == data)
      post("write", bytes, immediate + there(sent_.take(bytes.size())));
    else
      post("send", {}, immediate);
  }
  Heard hear() {
    auto const word = word_of(next().immediate);
    if (word.kind != data) return {word, {}};
    return {word, get(ring_at + sent_to_it_.take(word.length) * cell, word.length)};
  }

 private:
  Place sent_, sent_to_it_;
};

Bytes message(std::uint32_t number, std::size_t length) {
  Bytes bytes;
  for (std::size_t i = 0; i < length; ++i) bytes.push_back(pattern(i, number));
  return bytes;
}
template <class Kind>
Bytes receive(Kind& end) {
  auto const received = must(receive_message(end, within(bound)));
  return {received.bytes().begin(), received.bytes().end()};
}
template <class Kind>
bool send_now(Kind& end, Bytes const& bytes) {
  std::span<std::byte const> const piece = bytes;
  return must(lend::try_send(end, std::span{&piece, 1}));
}

/// Both ways, on the soft device across the wrap of the counts, too; what is freed goes with the
/// next message.
template <class Wire>
void check_data(Wire& wire) {
  std::uint32_t const rounds = open_test_device().kind() == DeviceKind::soft ? 1030 : 20;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    CAPTURE(i);
    auto const length = i % 3 == 0 ? 150u : i % 100;
    REQUIRE(send_now(*wire.end, message(i, length)));
    auto const heard = wire.hear();
    REQUIRE(heard.word == WireWord{data, i % 1024, length});
    REQUIRE(heard.data == message(i, length));
    wire.say({data, i + 1, 100}, message(i + 7, 100));
    REQUIRE(receive(*wire.end) == message(i + 7, 100));
  }
  // Nothing goes to the program: a quarter of the window is told by a credit.
  wire.say({data, rounds, 1}, message(1, 1));
  static_cast<void>(receive(*wire.end));
  CHECK(wire.hear().word == WireWord{credit, (rounds + 1) % 1024, 0});
  // The program frees nothing: a window is sent, and no more until it tells a quarter.
  for (std::uint32_t i = 0; i < window; ++i) REQUIRE(send_now(*wire.end, message(i, 1)));
  CHECK_FALSE(send_now(*wire.end, message(9, 1)));
  for (std::uint32_t i = 0; i < window; ++i) CHECK(wire.hear().data == message(i, 1));
  wire.say({credit, rounds + 2, 0});
  // What is acknowledged meanwhile is a change, too.
  bool is_sent = false;
  for (auto const until = within(bound); !is_sent;) {
    must(wait_for_change(*wire.end, until));
    is_sent = send_now(*wire.end, message(9, 1));
  }
  CHECK(wire.hear().word == WireWord{data, (rounds + 1) % 1024, 1});
}

/// Each direction ends by its finish.
template <class Wire>
void check_ends(Wire& wire) {
  must(wire.end->finish_sending());
  CHECK(wire.hear().word.kind == no_more);
  wire.say({no_more, 0, 0});
  CHECK(must(receive_message(*wire.end, within(bound))).is_end());
  must(lend::finish(*wire.end, within(bound)));
  CHECK(wire.peer.end() == 0);
}

}  // namespace

TEST_CASE("a verbs program that makes the bytes of a SendReceive is one of its ends", "[interop]") {
  SendReceiveWire wire;
  check_data(wire);
}
TEST_CASE("a verbs program that makes the bytes of a CreditRing is one of its ends", "[interop]") {
  CreditRingWire wire;
  check_data(wire);
}
TEST_CASE("a verbs program ends a transport by a word", "[interop]") {
  SECTION("of a SendReceive") {
    SendReceiveWire wire;
    check_ends(wire);
  }
  SECTION("of a CreditRing") {
    CreditRingWire wire;
    check_ends(wire);
  }
}

TEST_CASE("a verbs program that makes the bytes of a ReadRing is one of its ends", "[interop]") {
  WireEnds<ReadRing> wire{3, ring_bytes, 16};
  auto const say = [&](WireWord const& word, std::uint32_t tail, std::uint32_t read) {
    Bytes note;
    for (auto const number : {bits_of(word), tail, read, 0u}) append(note, number, 4);
    wire.post("send", note);
  };
  auto const hear = [&](WireWord const& word, std::uint32_t tail, std::uint32_t read) {
    Bytes note;
    for (auto const number : {bits_of(word), tail, read, 0u}) append(note, number, 4);
    CHECK(wire.next().bytes == note);
  };
  // To the program: it READs the header and the data.
  REQUIRE(send_now(*wire.end, message(5, 100)));
  hear({}, 2, 0);
  constexpr std::size_t landing = 256 * 1024;
  REQUIRE(wire.peer.ask("read 2 262144:108" + wire.there(0)) == "ok");
  REQUIRE(wire.peer.ask("wait").starts_with("2 0 "));
  auto const read = wire.get(landing, 108);
  CHECK(number_at(read, 0) == 100);
  CHECK(number_at(read, 4) == 0);
  CHECK(Bytes{read.begin() + 8, read.end()} == message(5, 100));
  say({credit, 1, 0}, 0, 2);
  while (wire.end->sends_in_flight() > 0) must(wait_for_change(*wire.end, within(bound)));

  // From it: two messages behind one note.
  for (std::uint32_t i = 0; i < 2; ++i) {
    Bytes whole;
    append(whole, 50, 4);
    append(whole, i, 4);
    auto const bytes = message(i, 50);
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    wire.put(wire.ring_at + i * cell, whole);
  }
  say({data, 1, 0}, 2, 2);
  for (std::uint32_t i = 0; i < 2; ++i) CHECK(receive(*wire.end) == message(i, 50));
  hear({}, 2, 2);
  hear({credit, 2, 0}, 2, 2);
  must(wire.end->finish_sending());
  hear({no_more, 2, 0}, 2, 2);
  say({no_more, 1, 0}, 2, 2);
  CHECK(must(receive_message(*wire.end, within(bound))).is_end());
}
