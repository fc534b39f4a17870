// SPDX-License-Identifier: MIT OR Apache-2.0
// The word that each message of a transport carries: what it is, and what its sender has freed.
// Values.
//
//   2 kind   10 messages of the other direction that were freed, modulo 1024   20 length
//
// The length of a credit has a bit for each place whose lent message is over.
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
  lent = 3,    ///< a message of the program that the peer reads in place: says where it lies
};

struct Word {
  WordKind kind{};
  std::uint32_t freed = 0;
  std::uint32_t length = 0;  ///< of data and lent; of a credit the places; else 0
};

inline constexpr std::uint32_t word_length_max = (1u << 20) - 1;
/// Of a word in front of its message: the word, and zeros that keep the message aligned.
inline constexpr std::uint32_t word_bytes = 8;
/// Lent messages at a time in each direction. Each has a place.
inline constexpr std::uint32_t lent_max = 4;
/// Of what a `lent` word comes with: a RemoteRegion, the place, and zeros.
inline constexpr std::uint32_t lent_note_bytes = 40;

/// Whether a word takes a receive of the window.
[[nodiscard]] constexpr bool has_message(WordKind kind) noexcept {
  return kind == WordKind::data || kind == WordKind::lent;
}
/// Bytes that come with a word.
[[nodiscard]] constexpr std::uint32_t bytes_with(Word const& word) noexcept {
  return has_message(word.kind) ? word.length : 0;
}
/// Whether its sender waits until the peer has it: not for a credit that only frees room.
[[nodiscard]] constexpr bool is_awaited(Word const& word) noexcept {
  return word.kind != WordKind::credit || word.length != 0;
}
/// Whether words of this kind can have this length.
[[nodiscard]] constexpr bool is_length_of(WordKind kind, std::uint32_t length) noexcept {
  switch (kind) {
    case WordKind::data: return true;
    case WordKind::credit: return length >> lent_max == 0;
    case WordKind::finish: return length == 0;
    case WordKind::lent: return length == lent_note_bytes;
  }
  return false;
}

[[nodiscard]] constexpr std::uint32_t encode(Word const& word) noexcept {
  return static_cast<std::uint32_t>(word.kind) << 30 | word.freed << 20 | word.length;
}

/// Bits of no word.
inline constexpr std::uint32_t no_word = UINT32_MAX;

/// Nothing: no word of this version.
[[nodiscard]] constexpr std::optional<Word> decode(std::uint32_t bits) noexcept {
  Word const word{WordKind(bits >> 30), bits >> 20 & 1023u, bits & word_length_max};
  if (word.kind != WordKind::data && !is_length_of(word.kind, word.length)) return std::nullopt;
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
