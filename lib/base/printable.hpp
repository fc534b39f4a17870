// SPDX-License-Identifier: MIT OR Apache-2.0
// Text of users and peers in messages, which a terminal may show. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace lend::base {

/// Replaces control characters. What a user wrote in another alphabet stays.
inline void replace_controls(std::string& text) noexcept {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
}

/// Up to 60 characters of `text`, in ASCII.
[[nodiscard]] inline std::string shown(std::string_view text, std::size_t most = 60) {
  std::string start{text.substr(0, most)};
  std::ranges::replace_if(
      start, [](char c) { return c < ' ' || c > '~'; }, '?');
  return start;
}

}  // namespace lend::base
