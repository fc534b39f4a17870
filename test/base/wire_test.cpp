// SPDX-License-Identifier: MIT OR Apache-2.0
// Wire bytes: fixed order, round trips, and no step past either end.
#include "support/catch.hpp"
#include "support/seed.hpp"

#include "base/wire.hpp"

#include <algorithm>
#include <random>
#include <string_view>
#include <vector>

namespace lend {

using base::crc32;
using base::WireReader;
using base::WireWriter;

namespace {

std::span<std::byte const> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}

TEST_CASE("integers are written big-endian", "[base]") {
  std::array<std::byte, 15> buffer{};
  WireWriter writer{buffer};
  writer.u8(0x01);
  writer.u16(0x0203);
  writer.u32(0x04050607);
  writer.u64(0x08090a0b0c0d0e0f);
  CHECK(writer.ok());
  CHECK(writer.written() == 15);
  for (std::size_t i = 0; i < buffer.size(); ++i)
    CHECK(std::to_integer<std::size_t>(buffer[i]) == i + 1);
}

TEST_CASE("the largest values survive a round trip", "[base]") {
  std::array<std::byte, 20> buffer{};
  WireWriter writer{buffer};
  writer.u8(0xff);
  writer.u16(0xfffe);
  writer.u32(0xfffffffd);
  writer.u64(0xfffffffffffffffc);
  writer.bytes(bytes_of("lend!"));
  REQUIRE(writer.ok());
  WireReader reader{buffer};
  CHECK(reader.u8() == 0xff);
  CHECK(reader.u16() == 0xfffe);
  CHECK(reader.u32() == 0xfffffffd);
  CHECK(reader.u64() == 0xfffffffffffffffc);
  std::array<std::byte, 5> text{};
  reader.bytes(text);
  CHECK(std::ranges::equal(text, bytes_of("lend!")));
  CHECK(reader.ok());
  CHECK(reader.left() == 0);
}

TEST_CASE("what does not fit is not written, nor anything after it", "[base]") {
  std::array<std::byte, 4> buffer{};
  WireWriter writer{std::span{buffer}.first(3)};
  writer.u16(0xaaaa);
  writer.u16(0xbbbb);
  CHECK(!writer.ok());
  writer.u8(0xcc);  // would fit
  writer.bytes({});
  CHECK(!writer.ok());
  CHECK(writer.written() == 2);
  CHECK(buffer[2] == std::byte{});
  CHECK(buffer[3] == std::byte{});
}

TEST_CASE("past the end a reader yields zeros and stays not ok", "[base]") {
  auto const source = bytes_of("\x01\x02\x03");
  WireReader reader{source};
  CHECK(reader.u16() == 0x0102);
  CHECK(reader.u32() == 0);
  CHECK(!reader.ok());
  CHECK(reader.u8() == 0);  // a byte is left, but its place is not known any more
  std::array<std::byte, 2> target{std::byte{9}, std::byte{9}};
  reader.bytes(target);
  CHECK(target == std::array<std::byte, 2>{});
  CHECK(!reader.ok());
}

TEST_CASE("an empty source and target are no error until asked for a byte", "[base]") {
  WireReader reader{{}};
  WireWriter writer{{}};
  reader.bytes({});
  writer.bytes({});
  CHECK(reader.ok());
  CHECK(writer.ok());
  CHECK(reader.u8() == 0);
  writer.u8(1);
  CHECK(!reader.ok());
  CHECK(!writer.ok());
}

TEST_CASE("input cut short at any length is noticed and never read past", "[base]") {
  std::vector<std::byte> whole(64);
  for (auto const seed : test::seeds(20)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    std::vector<unsigned> widths;
    WireWriter writer{whole};
    for (std::size_t left = whole.size(); left >= 8; left = whole.size() - writer.written()) {
      auto const width = 1U << random() % 4;
      widths.push_back(width);
      if (width == 1) writer.u8(static_cast<std::uint8_t>(random()));
      if (width == 2) writer.u16(static_cast<std::uint16_t>(random()));
      if (width == 4) writer.u32(static_cast<std::uint32_t>(random()));
      if (width == 8) writer.u64(random());
    }
    REQUIRE(writer.ok());
    for (std::size_t length = 0; length <= writer.written(); ++length) {
      // A copy of exactly this length, so that a sanitizer sees one byte too many.
      std::vector<std::byte> const cut(whole.begin(),
                                       whole.begin() + static_cast<std::ptrdiff_t>(length));
      WireReader reader{cut};
      for (auto const width : widths) {
        if (width == 1) (void)reader.u8();
        if (width == 2) (void)reader.u16();
        if (width == 4) (void)reader.u32();
        if (width == 8) (void)reader.u64();
      }
      CHECK(reader.ok() == (length == writer.written()));
    }
  }
}

TEST_CASE("crc32 gives the published check values", "[base]") {
  // Source: the catalogue entry CRC-32/ISO-HDLC gives cbf43926 for the nine digits.
  CHECK(crc32(bytes_of("123456789")) == 0xcbf43926);
  CHECK(crc32({}) == 0);
  CHECK(crc32(bytes_of("a")) == 0xe8b7be43);
  CHECK(crc32(bytes_of("The quick brown fox jumps over the lazy dog")) == 0x414fa339);
  CHECK(crc32(std::vector<std::byte>(32)) == 0x190a55ad);
}

TEST_CASE("crc32 notices every single flipped bit", "[base]") {
  std::array<std::byte, 40> data{};
  auto const whole = crc32(data);
  for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= std::byte{1} << bit % 8;
    CHECK(crc32(data) != whole);
    data[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

}  // namespace
}  // namespace lend
