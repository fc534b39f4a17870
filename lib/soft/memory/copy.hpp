// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies bytes between two lists of ranges. Any thread.
//
// These functions act as the device: they may access bytes that are poisoned for all other code
// (base/poison.hpp). Hence no_sanitize_address, and no function that AddressSanitizer intercepts:
// no memcpy of unknown length, no process_vm_readv.
#pragma once

#include <soft/memory/extent.hpp>

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
/// Whether `length` bytes are an aligned word.
[[nodiscard]] inline bool is_word(std::byte const* bytes, std::size_t length) noexcept {
  return length == word_bytes && reinterpret_cast<std::uintptr_t>(bytes) % word_bytes == 0;
}

/// Copies ascending; the last bytes, up to 8, become visible after all others, and an aligned word
/// of 8 bytes is never seen half written. So a reader may wait on the last byte, or on a flag.
[[gnu::always_inline]] inline void copy_in_order(std::byte* target, std::byte const* source,
                                                 std::size_t length) noexcept {
  if (is_word(target, length)) return copy_as<std::uint64_t>(target, source);
  copy_bytes_in_order(target, source, length);
}

/// From so many bytes on copy_past_caches() is worth its fence.
inline constexpr std::size_t past_caches_min = 8192;
/// Copies bytes that another CPU reads next: past the caches, where lines that one CPU writes and
/// another reads, in turn, are slow to pass from cache to cache. The last bytes, up to 8, become
/// visible after all others, which come in any order.
void copy_past_caches(std::byte* target, std::byte const* source, std::size_t length) noexcept;

void copy_few_others(std::byte* target, std::byte const* source, std::size_t length) noexcept;
/// Copies a few bytes without the overhead of memcpy, in words as far as possible.
[[gnu::no_sanitize_address]] inline void copy_few(std::byte* target, std::byte const* source,
                                                  std::size_t length) noexcept {
  if (length != word_bytes) return copy_few_others(target, source, length);
  std::memcpy(target, source, word_bytes);  // most often
}

enum class Copied {
  all,
  fault,      // the peer's memory is missing or not accessible
  our_fault,  // this process's memory is missing
  gone,       // there is no such thread
};
enum class Direction { to_peer, from_peer };

[[nodiscard]] Copied transfer_pieces(Direction, Extents const& ours, Extents const& theirs,
                                     std::size_t length, int thread) noexcept;
/// Copies `length` bytes between mapped ranges of this process and ranges of the process of
/// `thread`; both have at least that many.
[[nodiscard]] inline Copied transfer(Direction direction, Extents const& ours,
                                     Extents const& theirs, std::size_t length,
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
