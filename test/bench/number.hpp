// SPDX-License-Identifier: MIT OR Apache-2.0
// A number of a command line. Any thread.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace lend::bench {

/// False, and `value` is any, where `word` is not a number and nothing else.
template <class Number>
[[nodiscard]] bool parse_number(std::string_view word, Number& value) noexcept {
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}

}  // namespace lend::bench
