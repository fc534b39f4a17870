// SPDX-License-Identifier: MIT OR Apache-2.0
// What is written to a slot of its reader's memory: words, which a device writes in any order, and
// of which a thread of the writer stores the first one last. The first word has a number and a hash
// of the others, by which the reader knows that it has read all of them. Any thread.
//
// A template's slot has load(index), which is relaxed, and fence(), which acquires what such loads
// saw; or store(index, word, order). Of a row that a thread stores it has all words behind the
// first at once: after acquire() of what the first word's load saw; or put().
#pragma once

#include <base/copy_bytes.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lend::group {

struct WrittenWords {
  static constexpr std::size_t word_bytes = sizeof(std::uint64_t);

  /// Of each word in the hash. High bits of a product depend on all of its factors', and these are
  /// odd. The first word keeps the upper half of the sum.
  [[nodiscard]] static constexpr std::uint64_t term(std::size_t index,
                                                    std::uint64_t word) noexcept {
    return (word ^ word >> 32) * (0x9e3779b97f4a7c15 + index * 0xd1b54a32d192ed02);
  }
  [[nodiscard]] static constexpr std::uint64_t first_word(std::uint32_t number,
                                                          std::uint64_t mark) noexcept {
    return static_cast<std::uint64_t>(number) << 32 | (mark + number) >> 32;
  }
  /// A whole word where there is one: most values have 8 bytes.
  static void copy_word(void* target, void const* source, std::size_t left) noexcept {
    if (left >= word_bytes) [[likely]]
      std::memcpy(target, source, word_bytes);
    else
      std::memcpy(target, source, left);
  }
  /// Stores `length` bytes from word `index` on. Their part of the hash.
  template <class Slot>
  [[nodiscard]] static std::uint64_t store_bytes(Slot slot, std::size_t index,
                                                 std::byte const* bytes,
                                                 std::size_t length) noexcept {
    std::uint64_t mark = 0;
    for (std::size_t at = 0; at < length; at += word_bytes, ++index) {
      std::uint64_t word = 0;
      copy_word(&word, bytes + at, length - at);
      mark += term(index, word);
      slot.store(index, word, std::memory_order_relaxed);
    }
    return mark;
  }
  /// The reverse.
  template <class Slot>
  [[nodiscard]] static std::uint64_t load_bytes(Slot slot, std::size_t index, std::byte* bytes,
                                                std::size_t length) noexcept {
    std::uint64_t mark = 0;
    for (std::size_t at = 0; at < length; at += word_bytes, ++index) {
      auto const word = slot.load(index);
      mark += term(index, word);
      copy_word(bytes + at, &word, length - at);
    }
    return mark;
  }
};

/// A slot in this rank's memory, to read.
struct ReadSlot {
  std::byte const* place;

  /// A device of the same process writes as another thread would. That race is meant, and what it
  /// can bring is found by the hash; the sanitizer is not to see it.
  [[nodiscard, gnu::no_sanitize_thread]] std::uint64_t load(std::size_t index) const noexcept {
    return reinterpret_cast<std::uint64_t const volatile*>(place)[index];
  }
  static void fence() noexcept { std::atomic_thread_fence(std::memory_order_acquire); }
  /// Of a first word that a thread has stored.
  void acquire() const noexcept {
    auto& first = *reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(place));
    static_cast<void>(std::atomic_ref{first}.load(std::memory_order_acquire));
  }
  /// After that: the words behind it, as bytes.
  [[nodiscard]] std::byte const* bytes() const noexcept { return place + WrittenWords::word_bytes; }
};

/// A slot of the peer's that this process has mapped, to store to.
struct MappedSlot {
  std::byte* place;

  void store(std::size_t index, std::uint64_t word, std::memory_order order) const noexcept {
    std::atomic_ref{reinterpret_cast<std::uint64_t*>(place)[index]}.store(word, order);
  }
  void put(std::byte const* bytes, std::size_t length) const noexcept {
    base::copy_bytes({place + WrittenWords::word_bytes, length}, {bytes, length});
  }
};

/// Bytes of this rank, of which its device writes a slot.
struct EncodedSlot {
  std::byte* target;

  void store(std::size_t index, std::uint64_t word, std::memory_order) const noexcept {
    std::memcpy(target + index * WrittenWords::word_bytes, &word, WrittenWords::word_bytes);
  }
};

}  // namespace lend::group
