// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies long messages. Any thread.
//
// From 2 KiB on memcpy() may use string moves, until its stores pass the caches by. Where the
// target lies up to 63 bytes behind the source modulo 4096, as memory of malloc() and of mmap()
// does, some CPUs need 25 times as long for them. Source: measured on AMD family 25 with glibc
// 2.36.
#pragma once

#include <base/poison.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lend::base {

/// What copy_blocks() copies whole.
inline constexpr std::size_t copied_block = 64;

[[nodiscard]] inline bool are_string_moves_slow(std::byte const* target,
                                                std::byte const* source) noexcept {
  auto const behind =
      reinterpret_cast<std::uintptr_t>(target) - reinterpret_cast<std::uintptr_t>(source);
  return (behind - 1) % 4096 < 63;
}

/// Copies whole blocks, ascending. Never by memcpy(), also of bytes that are poisoned.
[[gnu::no_sanitize_address]] inline void copy_blocks(std::byte* target, std::byte const* source,
                                                     std::size_t length) noexcept {
  using Vector [[gnu::vector_size(16)]] = long long;
  constexpr auto size = sizeof(Vector);
  for (; length > 0; length -= copied_block, target += copied_block, source += copied_block) {
    Vector a, b, c, d;
    std::memcpy(&a, source, size);
    std::memcpy(&b, source + size, size);
    std::memcpy(&c, source + 2 * size, size);
    std::memcpy(&d, source + 3 * size, size);
    std::memcpy(target, &a, size);
    std::memcpy(target + size, &b, size);
    std::memcpy(target + 2 * size, &c, size);
    std::memcpy(target + 3 * size, &d, size);
  }
}

/// As memcpy(), but without string moves where they are slow.
/// Shape:   `into` is at least as long as `from`, and elsewhere.
inline void copy_bytes(std::span<std::byte> into, std::span<std::byte const> from) noexcept {
  std::size_t blocks = 0;
  // Where bytes may be poisoned, memcpy() finds out.
  if (!can_poison && from.size() >= 2048 && are_string_moves_slow(into.data(), from.data())) {
    blocks = from.size() / copied_block * copied_block;
    copy_blocks(into.data(), from.data(), blocks);
  }
  if (blocks < from.size())
    std::memcpy(into.data() + blocks, from.data() + blocks, from.size() - blocks);
}

/// Reads a byte of each page, so that what is slow to come or cannot be read faults here.
/// Shape:   there is a byte.
inline void touch(std::span<std::byte const> bytes) noexcept {
  constexpr std::size_t page = 4096;  // or a multiple of it
  std::byte const volatile* const each = bytes.data();
  for (std::size_t at = page; at < bytes.size(); at += page) static_cast<void>(each[at]);
  static_cast<void>(each[0]);
  static_cast<void>(each[bytes.size() - 1]);
}

}  // namespace lend::base
