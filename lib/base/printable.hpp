// SPDX-License-Identifier: MIT OR Apache-2.0
// Text of users and peers in messages, which a terminal may show. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace lend::base {

/// Replaces control characters: those of ASCII, and those from 0x80 to 0x9f, as bytes and in UTF-8.
/// What a user wrote in another alphabet stays.
inline void replace_controls(std::string& text) noexcept {
  int rest = 0;  // bytes that a character of UTF-8 still has
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const byte = static_cast<unsigned char>(text[i]);
    bool const continues = (byte & 0xc0) == 0x80;
    if (rest > 0 && continues) {
      --rest;
      continue;
    }
    rest = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc2 ? 1 : 0;
    bool const is_second_set = byte == 0xc2 && i + 1 < text.size() &&
                               static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                               static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (is_second_set) text[i + 1] = '?', rest = 0;
    if (byte < ' ' || byte == 0x7f || continues || is_second_set) text[i] = '?';
  }
}

/// Up to 60 characters of `text`, in ASCII.
[[nodiscard]] inline std::string shown(std::string_view text, std::size_t most = 60) {
  std::string start{text.substr(0, most)};
  std::ranges::replace_if(
      start, [](char c) { return c < ' ' || c > '~'; }, '?');
  return start;
}

}  // namespace lend::base
