// SPDX-License-Identifier: MIT OR Apache-2.0
// Moving bytes between two lists of stretches. Any thread.
//
// These functions are the device's hands: bytes that are poisoned for everybody else
// (base/poison.hpp) are theirs to touch. Hence no_sanitize_address, and nothing that
// AddressSanitizer intercepts: no memcpy of unknown length, no process_vm_readv.
#pragma once

#include "stretch.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lend::soft {

inline constexpr std::size_t word_bytes = 8;

/// One aligned T, in one store.
template <class T>
[[gnu::no_sanitize_address]] inline void copy_as(std::byte* target,
                                                 std::byte const* source) noexcept {
  T value;
  std::memcpy(&value, source, sizeof value);
  // Release: after every byte before it. Pairs with the reader's acquire, or its data dependency.
  __atomic_store_n(reinterpret_cast<T*>(target), value, __ATOMIC_RELEASE);
}

void copy_bytes_in_order(std::byte* target, std::byte const* source, std::size_t length) noexcept;
/// Copies ascending; the last bytes, up to 8, become visible after all others, and an aligned word
/// of 8 bytes is never seen half written. So a reader may wait on the last byte, or on a flag.
inline void copy_in_order(std::byte* target, std::byte const* source, std::size_t length) noexcept {
  if (length == word_bytes && reinterpret_cast<std::uintptr_t>(target) % word_bytes == 0)
    return copy_as<std::uint64_t>(target, source);
  copy_bytes_in_order(target, source, length);
}

/// A few bytes without the call and the choices of memcpy, in words as far as they go.
[[gnu::no_sanitize_address]] inline void copy_few(std::byte* target, std::byte const* source,
                                                  std::size_t length) noexcept {
  while (length >= word_bytes) {
    std::memcpy(target, source, word_bytes);
    if (length == word_bytes) return;  // most often
    length -= word_bytes, target += word_bytes, source += word_bytes;
  }
  for (; length > 0; --length) *target++ = *source++;
}

enum class Copied {
  all,
  fault,      // theirs is not there, or must not be touched
  our_fault,  // ours is not there
  gone,       // there is no such thread
};
enum class Direction { to_peer, from_peer };

[[nodiscard]] Copied transfer_pieces(Direction, Stretches const& ours, Stretches const& theirs,
                                     std::size_t length, int thread) noexcept;
/// Copies `length` bytes between ours, all mapped, and those of the process that `thread` is of;
/// both hold at least so many.
[[nodiscard]] inline Copied transfer(Direction direction, Stretches const& ours,
                                     Stretches const& theirs, std::size_t length,
                                     int thread) noexcept {
  if (ours.count != 1 || theirs.count != 1 || !theirs.all_mapped) [[unlikely]]
    return transfer_pieces(direction, ours, theirs, length, thread);
  auto* const here = ours.items[0].mapped;
  auto* const there = theirs.items[0].mapped;
  if (direction == Direction::to_peer)
    copy_in_order(there, here, length);
  else
    copy_in_order(here, there, length);
  return Copied::all;
}

}  // namespace lend::soft
