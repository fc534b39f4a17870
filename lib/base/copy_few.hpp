// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies short messages. Any thread.
#pragma once

#include <cstddef>
#include <cstring>

namespace lend::base {

/// By words, because a call of memcpy() takes longer.
[[gnu::always_inline]] inline void copy_few(std::byte* target, std::byte const* source,
                                            std::size_t length) noexcept {
  constexpr std::size_t word = 8;
  for (; length >= word; length -= word, target += word, source += word) {
    std::memcpy(target, source, word);
    if (length == word) [[likely]]
      return;
  }
  for (; length > 0; --length) *target++ = *source++;
}

}  // namespace lend::base
