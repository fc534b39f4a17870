// SPDX-License-Identifier: MIT OR Apache-2.0
// A short message in a slot of its reader's memory, as written words with the message's number. Any
// thread.
#pragma once

#include <group/link/message_head.hpp>
#include <group/link/written_words.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lend::group {

/// A slot, in whole words: no longer than what goes inline on most devices, and one cache line.
struct WrittenMessage : private WrittenWords {
  static constexpr std::size_t bytes = 64;
  static constexpr std::size_t values_max = bytes - word_bytes - sizeof(MessageHead);

  /// What the next slot has.
  enum class Look {
    nothing,  ///< not the message of that number, or not all of it
    other,    ///< another message than the expected one
    expected,
  };

  [[nodiscard]] static std::size_t length(std::size_t values) noexcept {
    return word_bytes + sizeof(MessageHead) + (values + word_bytes - 1) / word_bytes * word_bytes;
  }

  /// Puts message `number` of a link, counted from 1, to `target`, from where it is written to the
  /// peer's slot. Its length there.
  /// Shape:   `values` are head.length bytes, at most values_max; `target` has as many bytes as a
  ///          slot, or as the message.
  static std::size_t encode(std::byte* target, std::uint32_t number, MessageHead const& head,
                            std::byte const* values) noexcept {
    store(EncodedSlot{target}, number, head, values);
    return length(head.length);
  }
  /// The same straight to the slot. A reader that sees the number sees all words.
  template <class Slot>
  static void store(Slot slot, std::uint32_t number, MessageHead const& head,
                    std::byte const* values) noexcept {
    auto const words = std::bit_cast<Words>(head);
    auto mark = term(1, words[0]) + term(2, words[1]) + term(3, words[2]) + term(4, words[3]);
    for (std::size_t i = 0; i < words.size(); ++i)
      slot.store(1 + i, words[i], std::memory_order_relaxed);
    mark += store_bytes(slot, 1 + words.size(), values, head.length);
    // Release: pairs with the reader's fence.
    slot.store(0, first_word(number, mark), std::memory_order_release);
  }

  /// Reads the message of that number, if it is `expected` but for what it says was freed.
  /// Shape:   `values` has expected.length bytes, at most values_max; they are written if it is the
  ///          expected message, and may be otherwise.
  template <class Slot>
  [[nodiscard]] static Look look(Slot slot, std::uint32_t number, MessageHead expected,
                                 std::uint32_t& freed, std::byte* values) noexcept {
    auto const first = slot.load(0);
    if (first >> 32 != number) return Look::nothing;
    slot.fence();
    Words const words{slot.load(1), slot.load(2), slot.load(3), slot.load(4)};
    freed = expected.freed = std::bit_cast<MessageHead>(words).freed;
    auto const wanted = std::bit_cast<Words>(expected);
    if (((words[0] ^ wanted[0]) | (words[1] ^ wanted[1]) | (words[2] ^ wanted[2]) |
         (words[3] ^ wanted[3])) != 0)
      return Look::other;
    auto mark = term(1, words[0]) + term(2, words[1]) + term(3, words[2]) + term(4, words[3]);
    mark += load_bytes(slot, 1 + words.size(), values, expected.length);
    return first_word(number, mark) == first ? Look::expected : Look::nothing;
  }
  /// Reads the message of that number, whichever it is: `other` if no rank writes such messages.
  template <class Slot>
  [[nodiscard]] static Look read(Slot slot, std::uint32_t number, MessageHead& head,
                                 std::span<std::byte, values_max> values) noexcept {
    auto const first = slot.load(0);
    if (first >> 32 != number) return Look::nothing;
    slot.fence();
    Words const words{slot.load(1), slot.load(2), slot.load(3), slot.load(4)};
    head = std::bit_cast<MessageHead>(words);
    if (head.length > values_max) return Look::other;
    auto mark = term(1, words[0]) + term(2, words[1]) + term(3, words[2]) + term(4, words[3]);
    mark += load_bytes(slot, 1 + words.size(), values.data(), head.length);
    return first_word(number, mark) == first ? Look::expected : Look::nothing;
  }

 private:
  using Words = std::array<std::uint64_t, sizeof(MessageHead) / word_bytes>;
  static_assert(std::tuple_size_v<Words> == 4);
};

}  // namespace lend::group
