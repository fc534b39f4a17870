// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a peer says of itself is refused unless it is right; words are read as they were
// written. Method: every bit flipped, every field out of range with a checksum that is right.
#include <base/wire.hpp>
#include <transport/terms.hpp>
#include <transport/word.hpp>

#include <array>
#include <string>

#include <verbs/queue/adoption.hpp>

#include "support/two_ends.hpp"
#include "transport/channel_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace lend::transport;

namespace {

constexpr Terms ours{TransportKind::send_receive, 32, 16'384};

constexpr Terms ring{.kind = TransportKind::credit_ring,
                     .window = 64,
                     .message_bytes_max = 65'536,
                     .ring_bytes = 262'144,
                     .address = 0x7f00'0000'1000,
                     .key = 77};

TransportTerms with(std::size_t at, std::uint8_t value, Terms const& terms = ours) {
  auto bytes = encode(terms);
  bytes[at] = std::byte{value};
  base::WireWriter writer{std::span{bytes}.subspan(28)};
  writer.u32(base::crc32(std::span{bytes}.first(28)));
  return bytes;
}

}  // namespace

TEST_CASE("terms are read as they were written, and with any bit flipped refused", "[transport]") {
  auto const bytes = encode({.kind = TransportKind::send_receive,
                             .window = 512,
                             .message_bytes_max = 1'048'575,
                             .lent_bytes_max = 77 * 4096});
  auto const read = must(accept_terms(bytes, ours));
  CHECK(read.window == 512);
  CHECK(read.message_bytes_max == 1'048'575);
  CHECK(read.lent_bytes_max == 77 * 4096);
  CHECK(read.start == 0);
  auto const of_a_pool = encode(
      {.kind = TransportKind::send_receive, .window = 32, .message_bytes_max = 64, .start = 7});
  CHECK(must(accept_terms(of_a_pool, ours)).start == 7);

  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= std::byte(1u << bit % 8);
    CHECK(error_of(accept_terms(flipped, ours)) == Errc::incompatible_peer);
  }
}

TEST_CASE("terms that do not fit are refused with both values", "[transport]") {
  auto const [bytes, words] = GENERATE(table<TransportTerms, std::string>({
      {with(0, 1), "version of the terms is 1 and this end's 2"},
      {with(1, 4), "kind of transport is memory and this end's send_receive"},
      {with(1, 2), "kind of transport is credit_ring and this end's send_receive"},
      {with(1, 77), "kind of transport is kind 77 and this end's send_receive"},
      {with(3, 3), "window is 3 and this end's 32"},
      {with(3, 0), "window is 0 and this end's 32"},
      {with(2, 4), "window is 1056 and this end's 32"},
      {with(4, 1), "largest message is 16793600 and this end's 16384"},
      {with(6, 0), "largest message is 0 and this end's 16384"},
      {with(20, 1), "a ring, which this kind has not"},
      {with(19, 33), "first grant is 33 of a window of 32"},
      {encode({.kind = TransportKind::send_receive,
               .window = 32,
               .message_bytes_max = 4096,
               .lent_bytes_max = 4096,
               .start = 1}),
       "what no terms of this version say"},
  }));
  auto const refused = error_of(accept_terms(bytes, ours));
  CHECK(refused == Errc::incompatible_peer);
  CAPTURE(refused.message());
  CHECK(refused.message().find(words) != std::string::npos);
}

TEST_CASE("terms name the ring to write to, and a ring that cannot be is refused", "[transport]") {
  auto const read = must(accept_terms(encode(ring), ring));
  CHECK(read.ring_bytes == ring.ring_bytes);
  CHECK(read.address == ring.address);
  CHECK(read.key == ring.key);

  auto const [bytes, words] = GENERATE(table<TransportTerms, std::string>({
      {with(21, 0, ring), "ring is 0 bytes and this end's 262144"},        // no longer 4 messages
      {with(23, 64, ring), "ring is 262208 bytes and this end's 262144"},  // no multiple of 256
      {encode({.kind = TransportKind::credit_ring,
               .window = 64,
               .message_bytes_max = 39,
               .ring_bytes = 262'144,
               .lent_bytes_max = 4096}),
       "what no terms of this version say"},
      {encode({TransportKind::credit_ring, 64, 65'536, 262'144, UINT64_MAX - 4'096, 77}),
       "what no terms of this version say"},
  }));
  auto const refused = error_of(accept_terms(bytes, ring));
  CHECK(refused == Errc::incompatible_peer);
  CAPTURE(refused.message());
  CHECK(refused.message().find(words) != std::string::npos);
}

TEST_CASE("a word is read as it was written, and each bit of it counts", "[transport]") {
  for (Word const word : {Word{WordKind::data, 0, 0}, Word{WordKind::data, 1023, word_length_max},
                          Word{WordKind::data, 5, 64}, Word{WordKind::credit, 77, 0},
                          Word{WordKind::credit, 1023, 15}, Word{WordKind::finish, 1023, 0},
                          Word{WordKind::lent, 1, lent_note_bytes}}) {
    auto const bits = encode(word);
    auto const read = decode(bits);
    REQUIRE(read);
    CHECK(read->kind == word.kind);
    CHECK(read->freed == word.freed);
    CHECK(read->length == word.length);
    std::array<std::byte, 4> bytes;
    store(bytes.data(), bits);
    CHECK(bytes[0] == std::byte(bits >> 24));
    CHECK(load(bytes.data()) == bits);
    for (int bit = 0; bit < 32; ++bit) {
      auto const flipped = decode(bits ^ 1u << bit);
      if (flipped)
        CHECK(encode(*flipped) == (bits ^ 1u << bit));
      else
        CHECK((bit >= 30 || word.kind != WordKind::data));
    }
  }
  CHECK_FALSE(decode(0xc000'0000));  // lent, without a note
  CHECK_FALSE(decode(0x4000'0010));  // a credit that ends the message of a fifth place
  CHECK_FALSE(decode(0x8000'0001));  // a finish with bytes
}

TEST_CASE("a ReadRing whose connection takes no READs of one end is refused", "[transport]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto const b = must(ReadRing::prepare(domain));
  auto const [own, peers, says] = GENERATE(table<std::uint8_t, std::uint8_t, std::string>({
      {0, 1, "takes 0 of this end at a time and 1 of the peer"},
      {1, 0, "takes 1 of this end at a time and 0 of the peer"},
      {1, 1, ""},
  }));
  CAPTURE(own, peers);
  {
    auto a = must(ReadRing::prepare(domain));
    auto queue_pair = a.take_queue_pair();
    verbs::QueuePairAccess::handle_of(queue_pair)->terms.reads = {own, peers};  // as by rdma_cm
    auto connected = must(std::move(queue_pair).connect(b.endpoint()));
    auto const made = std::move(a).adopt(std::move(connected), b.terms());
    CHECK(made.has_value() == says.empty());
    if (!made) CHECK(made.error() == Errc::incompatible_peer);
    if (!made) CHECK(made.error().message().find(says) != std::string::npos);
  }
  auto endpoint = b.endpoint();
  endpoint.reads_served = own;  // READs of this end are what the peer serves
  CHECK(must(ReadRing::prepare(domain)).handshake(endpoint, b.terms()).has_value() == (own > 0));
}

TEST_CASE("a connection that takes less than its peer's terms say is refused", "[transport]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto const refused_below = [&]<class Kind>(std::type_identity<Kind>, std::uint32_t needed) {
    for (auto const bytes : {needed - 1, needed}) {
      auto a = must(Kind::prepare(domain));
      auto const b = must(Kind::prepare(domain));
      auto queue_pair = a.take_queue_pair();
      verbs::QueuePairAccess::handle_of(queue_pair)->message_bytes_max = bytes;  // as by rdma_cm
      auto connected = must(std::move(queue_pair).connect(b.endpoint()));
      auto const made = std::move(a).adopt(std::move(connected), b.terms());
      CAPTURE(needed, bytes);
      CHECK(made.has_value() == (bytes == needed));
      if (!made) CHECK(made.error() == Errc::incompatible_peer);
    }
  };
  refused_below(std::type_identity<SendReceive>{}, 16 * 1024 + word_bytes);
  refused_below(std::type_identity<ReadRing>{}, 256 * 1024);
  if (context.capabilities().immediates) refused_below(std::type_identity<CreditRing>{}, 32 * 1024);
}
