// SPDX-License-Identifier: MIT OR Apache-2.0
// Moving bytes between two lists of stretches. Any thread.
//
// These functions are the device's hands: bytes that are poisoned for everybody else
// (base/poison.hpp) are theirs to touch. Hence no_sanitize_address, and nothing that
// AddressSanitizer intercepts: no memcpy of unknown length, no process_vm_readv.
#pragma once

#include "stretch.hpp"

#include <cstddef>
#include <cstring>

namespace lend::soft {

/// Copies ascending; the last bytes, up to 8, become visible after all others, and an aligned word
/// of 8 bytes is never seen half written. So a reader may wait on the last byte, or on a flag.
void copy_in_order(std::byte* target, std::byte const* source, std::size_t length) noexcept;

/// A few bytes without the call and the choices of memcpy, in words as far as they go.
[[gnu::no_sanitize_address]] inline void copy_few(std::byte* target, std::byte const* source,
                                                  std::size_t length) noexcept {
  for (; length >= 8; length -= 8, target += 8, source += 8) std::memcpy(target, source, 8);
  for (; length > 0; --length) *target++ = *source++;
}

enum class Copied {
  all,
  fault,      // theirs is not there, or must not be touched
  our_fault,  // ours is not there
  gone,       // there is no such thread
};
enum class Direction { to_peer, from_peer };

/// Copies `length` bytes between ours, all mapped, and those of the process that `thread` is of;
/// both hold at least so many.
[[nodiscard]] Copied transfer(Direction, Stretches const& ours, Stretches const& theirs,
                              std::size_t length, int thread) noexcept;

}  // namespace lend::soft
