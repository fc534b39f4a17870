// SPDX-License-Identifier: MIT OR Apache-2.0
// Fixed-width big-endian encoding and its checksum. One thread at a time per reader or writer.
#include "base/wire.hpp"

#include <algorithm>

namespace lend::base {

void WireWriter::integer(std::uint64_t value, std::size_t width) noexcept {
  if (!ok_ || width > target_.size() - at_) {
    ok_ = false;
    return;
  }
  for (std::size_t i = width; i-- > 0; value >>= 8)
    target_[at_ + i] = static_cast<std::byte>(value & 0xff);
  at_ += width;
}

void WireWriter::bytes(std::span<std::byte const> value) noexcept {
  if (!ok_ || value.size() > target_.size() - at_) {
    ok_ = false;
    return;
  }
  std::ranges::copy(value, target_.subspan(at_).begin());
  at_ += value.size();
}

std::uint64_t WireReader::integer(std::size_t width) noexcept {
  if (!ok_ || width > left()) {
    ok_ = false;
    return 0;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i)
    value = value << 8 | std::to_integer<std::uint64_t>(source_[at_ + i]);
  at_ += width;
  return value;
}

void WireReader::bytes(std::span<std::byte> target) noexcept {
  if (!ok_ || target.size() > left()) {
    ok_ = false;
    std::ranges::fill(target, std::byte{});
    return;
  }
  std::ranges::copy(source_.subspan(at_, target.size()), target.begin());
  at_ += target.size();
}

namespace {

// The remainder of each byte. 0xedb88320 is the polynomial 0x04c11db7 with its bits reversed.
// Source: IEEE 802.3, 3.2.9.
constexpr auto crc32_remainders = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? 0xedb88320U : 0U);
    table[byte] = remainder;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32(std::span<std::byte const> data) noexcept {
  std::uint32_t crc = ~0U;
  for (auto const byte : data)
    crc = crc >> 8 ^ crc32_remainders[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return ~crc;
}

}  // namespace lend::base
