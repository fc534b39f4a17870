// SPDX-License-Identifier: MIT OR Apache-2.0
// A short row of an exchange in a slot of its reader's memory. Any thread.
#pragma once

#include <group/link/written_words.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lend::group {

/// Each row has two slots, used in turn: a rank begins its run n + 2 once it has a row that its
/// peer sent in run n + 1, after it had taken all rows of run n. So both have rows for each other.
struct WrittenRow {
  /// Of a row that a thread stores where it can, and of one that only devices write.
  static constexpr std::size_t stored_max = 4096, written_max = 192;
  static constexpr std::size_t alignment = 256;  // whole cache lines

  /// What is written for a row of so many bytes.
  [[nodiscard]] static constexpr std::size_t length(std::size_t bytes) noexcept {
    return WrittenWords::word_bytes *
           (1 + (bytes + WrittenWords::word_bytes - 1) / WrittenWords::word_bytes);
  }
  [[nodiscard]] static constexpr std::size_t slot_bytes(std::size_t bytes) noexcept {
    return (length(bytes) + alignment - 1) / alignment * alignment;
  }
  /// Of both slots.
  [[nodiscard]] static constexpr std::size_t place_bytes(std::size_t bytes) noexcept {
    return 2 * slot_bytes(bytes);
  }
  /// Where the slot of a run lies in the place.
  [[nodiscard]] static std::size_t slot_at(std::size_t bytes, std::uint32_t run) noexcept {
    return run % 2 * slot_bytes(bytes);
  }

  /// Puts the row of a run to its slot, by this thread; runs count from 1. A reader that sees the
  /// run's number sees all words.
  template <class Slot>
  static void store(Slot slot, std::uint32_t run, std::byte const* bytes,
                    std::size_t length) noexcept {
    slot.put(bytes, length);
    // Release: pairs with the reader's acquire().
    slot.store(0, first_word(run, is_stored), std::memory_order_release);
  }
  /// What a device writes there, in whichever order: the first word has a hash of the others.
  static void encode(EncodedSlot slot, std::uint32_t run, std::byte const* bytes,
                     std::size_t length) noexcept {
    auto const hash = WrittenWords::store_bytes(slot, 1, bytes, length);
    slot.store(0, first_word(run, hash_of(run, hash)), std::memory_order_relaxed);
  }
  enum class Found : std::uint8_t { nothing, in_slot, in_bytes };
  /// Whether the slot has the row of that run. One that a thread has stored stays `in_slot`, for
  /// take(), until this rank has begun the next run; of one that a device wrote `bytes` have it.
  template <class Slot>
  [[nodiscard]] static Found find(Slot slot, std::uint32_t run, std::byte* bytes,
                                  std::size_t length) noexcept {
    auto const first = slot.load(0);
    if (first >> 32 != run) return Found::nothing;
    if (first == first_word(run, is_stored)) {
      slot.acquire();
      return Found::in_slot;
    }
    slot.fence();
    auto const hash = WrittenWords::load_bytes(slot, 1, bytes, length);
    return first == first_word(run, hash_of(run, hash)) ? Found::in_bytes : Found::nothing;
  }

 private:
  static constexpr std::uint32_t is_stored = 0;  // in place of a hash

  [[nodiscard]] static std::uint64_t first_word(std::uint32_t run, std::uint32_t hash) noexcept {
    return std::uint64_t{run} << 32 | hash;
  }
  [[nodiscard]] static std::uint32_t hash_of(std::uint32_t run, std::uint64_t sum) noexcept {
    return std::max(static_cast<std::uint32_t>((sum + run) >> 32), is_stored + 1);
  }
};

}  // namespace lend::group
