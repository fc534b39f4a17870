// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes that cross processes and machines: fixed width, big-endian. One thread at a time.
// Exported for liblend-cm.so, which is of the same build: no program calls it.
#pragma once

#include <lend/base/export.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::base {

/// Writes values one after another into a buffer; never past its end.
class LEND_EXPORT WireWriter {
 public:
  explicit WireWriter(std::span<std::byte> target) noexcept : target_{target} {}

  void u8(std::uint8_t value) noexcept { integer(value, 1); }
  void u16(std::uint16_t value) noexcept { integer(value, 2); }
  void u32(std::uint32_t value) noexcept { integer(value, 4); }
  void u64(std::uint64_t value) noexcept { integer(value, 8); }
  void bytes(std::span<std::byte const> value) noexcept;

  /// False after a value did not fit; from then on nothing is written.
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t written() const noexcept { return at_; }

 private:
  void integer(std::uint64_t value, std::size_t width) noexcept;

  std::span<std::byte> target_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

/// Reads values one after another; past the end it yields zeros and is no longer ok().
class LEND_EXPORT WireReader {
 public:
  explicit WireReader(std::span<std::byte const> source) noexcept : source_{source} {}

  [[nodiscard]] std::uint8_t u8() noexcept { return static_cast<std::uint8_t>(integer(1)); }
  [[nodiscard]] std::uint16_t u16() noexcept { return static_cast<std::uint16_t>(integer(2)); }
  [[nodiscard]] std::uint32_t u32() noexcept { return static_cast<std::uint32_t>(integer(4)); }
  [[nodiscard]] std::uint64_t u64() noexcept { return integer(8); }
  void bytes(std::span<std::byte> target) noexcept;

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t left() const noexcept { return source_.size() - at_; }

 private:
  std::uint64_t integer(std::size_t width) noexcept;

  std::span<std::byte const> source_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

/// CRC-32 (IEEE 802.3), to detect damage. Not a defence against forgery.
[[nodiscard]] LEND_EXPORT std::uint32_t crc32(std::span<std::byte const> data) noexcept;

}  // namespace lend::base
