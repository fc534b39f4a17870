// SPDX-License-Identifier: MIT OR Apache-2.0
// A short row of an exchange in a slot of its reader's memory. Any thread.
#pragma once

#include <group/link/written_words.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lend::group {

/// Each row has two slots, used in turn: a rank begins its run n + 2 once it has a row that its
/// peer sent in run n + 1, after it had taken all rows of run n. So both have rows for each other.
struct WrittenRow {
  static constexpr std::size_t bytes_max = 192;
  static constexpr std::size_t slot_bytes = 256;  // whole cache lines

  [[nodiscard]] static bool fits(std::uint64_t bytes) noexcept { return bytes <= bytes_max; }
  [[nodiscard]] static std::size_t place_of(std::size_t row, std::uint32_t run) noexcept {
    return (2 * row + run % 2) * slot_bytes;
  }
  /// What is written for a row of so many bytes.
  [[nodiscard]] static std::size_t length(std::size_t bytes) noexcept {
    return WrittenWords::word_bytes *
           (1 + (bytes + WrittenWords::word_bytes - 1) / WrittenWords::word_bytes);
  }

  /// Puts the row of a run to its slot; runs count from 1. A reader that sees the run's number sees
  /// all words.
  template <class Slot>
  static void store(Slot slot, std::uint32_t run, std::byte const* bytes,
                    std::size_t length) noexcept {
    auto const mark = WrittenWords::store_bytes(slot, 1, bytes, length);
    // Release: pairs with the reader's fence.
    slot.store(0, WrittenWords::first_word(run, mark), std::memory_order_release);
  }
  /// Whether the slot has the row of that run; only then `bytes` have it.
  template <class Slot>
  [[nodiscard]] static bool load(Slot slot, std::uint32_t run, std::byte* bytes,
                                 std::size_t length) noexcept {
    auto const first = slot.load(0);
    if (first >> 32 != run) return false;
    slot.fence();
    auto const mark = WrittenWords::load_bytes(slot, 1, bytes, length);
    return WrittenWords::first_word(run, mark) == first;
  }
};

}  // namespace lend::group
