// SPDX-License-Identifier: MIT OR Apache-2.0
// Text of numbers.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace lend::tools {

/// As printf(3) prints; at most 255 characters.
template <class... Values>
[[nodiscard, gnu::always_inline]] inline std::string formatted(char const* form, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), form, values...);
  return text.data();
}

}  // namespace lend::tools
