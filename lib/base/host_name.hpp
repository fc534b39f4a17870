// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosts and addresses as a program was given them, which may be any bytes. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace lend {

constexpr std::size_t host_length_max = 253;  // RFC 1035 §2.3.4 without the two framing octets

/// Whether `host` has only characters that names of hosts and IP addresses have: no NUL either, so
/// that as a C string it is not cut short.
[[nodiscard]] inline bool has_host_characters(std::string_view host) noexcept {
  return std::ranges::all_of(
      host, [](char c) { return c > ' ' && c <= '~' && c != '[' && c != ']' && c != '/'; });
}

/// What a message repeats of `text`: its start, which a terminal may be told.
[[nodiscard]] inline std::string shown(std::string_view text) {
  std::string start{text.substr(0, 60)};
  std::ranges::replace_if(
      start, [](char c) { return c < ' ' || c > '~'; }, '?');
  return start;
}

}  // namespace lend
