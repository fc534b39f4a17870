// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosts and addresses from the program's input, which may be any bytes. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace lend::base {

constexpr std::size_t host_length_max = 253;  // RFC 1035 §2.3.4 without the two framing octets

/// Whether `host` has only characters of host names and IP addresses; no NUL, which would cut it
/// short as a C string.
[[nodiscard]] inline bool has_host_characters(std::string_view host) noexcept {
  return std::ranges::all_of(
      host, [](char c) { return c > ' ' && c <= '~' && c != '[' && c != ']' && c != '/'; });
}

}  // namespace lend::base
