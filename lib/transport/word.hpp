// SPDX-License-Identifier: MIT OR Apache-2.0
// The word that each message of a transport carries: what it is, and what its sender has freed.
// Values.
//
//   2 kind   10 messages of the other direction that were freed, modulo 1024   20 length
//
// Big-endian where it stands in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lend::transport {

enum class WordKind : std::uint8_t {
  data = 0,    ///< a message of the program
  credit = 1,  ///< only tells what was freed
  finish = 2,  ///< its sender sends no more data
};

struct Word {
  WordKind kind{};
  std::uint32_t freed = 0;
  std::uint32_t length = 0;  ///< of data; else 0
};

inline constexpr std::uint32_t word_length_max = (1u << 20) - 1;
/// Of a word in front of its message: the word, and zeros that keep the message aligned.
inline constexpr std::uint32_t word_bytes = 8;

[[nodiscard]] constexpr std::uint32_t encode(Word const& word) noexcept {
  return static_cast<std::uint32_t>(word.kind) << 30 | word.freed << 20 | word.length;
}

/// Bits of no word.
inline constexpr std::uint32_t no_word = UINT32_MAX;

/// Nothing: no word of this version.
[[nodiscard]] constexpr std::optional<Word> decode(std::uint32_t bits) noexcept {
  Word const word{WordKind(bits >> 30), bits >> 20 & 1023u, bits & word_length_max};
  if (word.kind > WordKind::finish || (word.kind != WordKind::data && word.length != 0))
    return std::nullopt;
  return word;
}

/// As it stands in front of its message.
inline void store(std::byte* at, std::uint32_t bits) noexcept {
  for (int i = 0; i < 4; ++i) at[i] = std::byte(bits >> (24 - 8 * i));
}
[[nodiscard]] inline std::uint32_t load(std::byte const* at) noexcept {
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits = bits << 8 | std::uint32_t(at[i]);
  return bits;
}

}  // namespace lend::transport
