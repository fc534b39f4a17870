// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames as bytes: every cut, every flipped byte, and random bytes.
#include <network/wire/frame.hpp>

#include <algorithm>
#include <random>

#include "network/raw_peers.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t version_at = 8;
constexpr std::size_t kind_at = 9;
constexpr std::size_t length_at = 10;
constexpr std::size_t note_length_at = network::frame_header_bytes;
constexpr std::size_t code_at = network::frame_header_bytes;
constexpr std::size_t text_length_at = network::frame_header_bytes + 1;

/// Feeds `bytes` in pieces of `step` until complete or refused.
Result<network::FrameReader> read(std::span<std::byte const> bytes, std::size_t step) {
  network::FrameReader reader;
  while (!bytes.empty() && !reader.complete()) {
    auto const count = std::min({step, bytes.size(), reader.room().size()});
    std::copy_n(bytes.begin(), count, reader.room().begin());
    LEND_TRYV(reader.took(count));
    bytes = bytes.subspan(count);
  }
  return reader;
}

Bytes with(Bytes bytes, std::size_t at, unsigned value) {
  bytes.at(at) = static_cast<std::byte>(value);
  return bytes;
}

/// Without a hello before it.
Bytes greeting_frame(std::uint32_t endpoint = 2) {
  return bytes_of(encode(greeting_with(endpoint)));
}

}  // namespace

TEST_CASE("a greeting arrives whole in pieces of any size", "[network]") {
  auto const step = GENERATE(1u, 2u, 7u, 12u, 13u, 1000u);
  auto const bytes = greeting_frame(9);

  auto const reader = must(read(bytes, step));

  REQUIRE(reader.complete());
  REQUIRE(reader.kind() == network::FrameKind::greeting);
  auto const greeting = must(reader.greeting());
  CHECK(greeting.endpoint == endpoint_of(9));
}

TEST_CASE("a hello and a proof arrive whole", "[network]") {
  auto const has_secret = GENERATE(false, true);
  network::Hello const hello{
      .nonce = {std::byte{1}, std::byte{2}}, .key = {std::byte{3}}, .has_secret = has_secret};
  auto const came = must(must(read(encode(hello).bytes(), 5)).hello());
  CHECK(came.nonce == hello.nonce);
  CHECK(came.key == hello.key);
  CHECK(came.has_secret == has_secret);

  network::Proof const proof{std::byte{3}, std::byte{4}};
  CHECK(must(read(network::encode(proof).bytes(), 5)).proof() == proof);
}

TEST_CASE("notes from none to the longest arrive unchanged", "[network]") {
  auto const length = GENERATE(0u, 1u, 63u, 64u);
  std::string const note(length, '\xff');

  auto const reader = must(read(encode(network::Greeting{endpoint_of(1), note}).bytes(), 100));

  CHECK(must(reader.greeting()).note == note);
}

TEST_CASE("a status arrives with its text, cut to its longest and made printable", "[network]") {
  auto const reader = must(
      read(encode(network::Status{network::StatusCode::failed, "bell\a " + std::string(1000, 'x')})
               .bytes(),
           5));

  REQUIRE(reader.kind() == network::FrameKind::status);
  auto const status = must(reader.status());
  CHECK(status.code == network::StatusCode::failed);
  CHECK(status.text == "bell? " + std::string(network::status_text_max - 6, 'x'));
}

TEST_CASE("a frame cut anywhere is not complete", "[network]") {
  auto const bytes = greeting_frame();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    auto const reader = must(read(std::span{bytes}.first(length), 64));
    CHECK_FALSE(reader.complete());
  }
}

TEST_CASE("the reader never takes bytes of the next frame", "[network]") {
  auto bytes = agreed();
  auto const whole = bytes.size();
  bytes.resize(whole + 1);

  network::FrameReader reader;
  std::size_t taken = 0;
  while (!reader.room().empty()) {
    auto const count = reader.room().size();
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(taken), count, reader.room().begin());
    must(reader.took(count));
    taken += count;
  }

  CHECK(taken == whole);
  CHECK(reader.complete());
}

TEST_CASE("a foreign header is refused by the byte that makes it foreign", "[network]") {
  auto const bytes = greeting_frame();
  for (std::size_t at = 0; at < network::frame_header_bytes; ++at) {
    CAPTURE(at);
    auto const changed = with(bytes, at, std::to_integer<unsigned>(bytes[at]) ^ 0x80u);
    auto const last = at < version_at ? at + 1 : network::frame_header_bytes;
    CHECK(read(std::span{changed}.first(last), 1).has_error());
    CHECK(error_of(read(changed, 1000)) == Errc::incompatible_peer);
  }
}

TEST_CASE("what is wrong with a frame is said", "[network]") {
  auto const why = [](Bytes const& bytes) { return error_of(read(bytes, 1000)).message(); };

  CHECK_THAT(why(bytes_of("GET / HTTP/1.1\r\n")), Catch::Contains("does not speak"));
  CHECK_THAT(why(with(greeting_frame(), version_at, 9)), Catch::Contains("version 9"));
  CHECK_THAT(why(with(greeting_frame(), kind_at, 77)), Catch::Contains("kind 77"));
  CHECK_THAT(why(with(greeting_frame(), length_at, 0xff)), Catch::Contains("bytes instead of"));
  CHECK_THAT(why(with(agreed(), kind_at, 1)), Catch::Contains("bytes instead of"));
}

TEST_CASE("lengths and codes inside a frame are checked", "[network]") {
  auto const long_note = must(read(with(greeting_frame(), note_length_at, 0xff), 1000));
  CHECK(error_of(long_note.greeting()) == Errc::incompatible_peer);

  auto const hello = bytes_of(encode(network::Hello{}));
  auto const odd = must(read(with(hello, hello.size() - 2, 2), 1000));
  CHECK(error_of(odd.hello()) == Errc::incompatible_peer);
  auto const visitor = must(read(with(hello, hello.size() - 1, 9), 1000));
  CHECK_THAT(error_of(visitor.hello()).message(), Catch::Contains("another purpose, number 9"));

  auto const long_text = must(read(with(agreed(), text_length_at, 0xff), 1000));
  CHECK(error_of(long_text.status()) == Errc::incompatible_peer);

  auto const code = GENERATE(0u, 11u, 255u);
  auto const unknown = must(read(with(agreed(), code_at, code), 1000));
  CHECK(error_of(unknown.status()) == Errc::incompatible_peer);
}

TEST_CASE("damaged and random frames are values or errors", "[network]") {
  for (auto const seed : seeds(20)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    for (int round = 0; round < 500; ++round) {
      auto bytes = round % 2 == 0 ? greeting_frame() : agreed();
      for (auto changes = random() % 4; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      auto const reader = read(bytes, 1 + random() % 64);
      if (!reader || !reader.value().complete()) continue;
      if (reader.value().kind() == network::FrameKind::greeting) {
        auto const greeting = reader.value().greeting();
        CHECK((!greeting || greeting.value().note.size() <= network::note_bytes_max));
      } else {
        auto const status = reader.value().status();
        CHECK((!status || status.value().text.size() <= network::status_text_max));
      }
    }
  }
}
