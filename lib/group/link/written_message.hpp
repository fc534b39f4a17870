// SPDX-License-Identifier: MIT OR Apache-2.0
// A short message in a slot of its reader's memory. A device writes its words in any order; a
// thread of the writer stores the first one last. The first word has the message's number and a
// hash of the others, by which the reader knows that it has read all of them. Any thread.
#pragma once

#include <group/link/message_head.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lend::group {

/// A slot, in whole words: no longer than what goes inline on most devices, and one cache line.
///
/// A template's slot has load(index), which is relaxed, and fence(), which acquires what such loads
/// saw; or store(index, word, order).
struct WrittenMessage {
  static constexpr std::size_t bytes = 64;
  static constexpr std::size_t word_bytes = sizeof(std::uint64_t);
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
    store(Bytes{target}, number, head, values);
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
    for (std::size_t at = 0, i = 1 + words.size(); at < head.length; at += word_bytes, ++i) {
      std::uint64_t word = 0;
      copy_word(&word, values + at, head.length - at);
      mark += term(i, word);
      slot.store(i, word, std::memory_order_relaxed);
    }
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
    mark += read_values(slot, expected.length, values);
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
    mark += read_values(slot, head.length, values.data());
    return first_word(number, mark) == first ? Look::expected : Look::nothing;
  }

 private:
  using Words = std::array<std::uint64_t, sizeof(MessageHead) / word_bytes>;
  static_assert(std::tuple_size_v<Words> == 4);

  struct Bytes {
    std::byte* target;
    void store(std::size_t index, std::uint64_t word, std::memory_order) const noexcept {
      std::memcpy(target + index * word_bytes, &word, word_bytes);
    }
  };

  /// Of each word in the hash. High bits of a product depend on all of its factors'; these are odd,
  /// so that one word that differs always shows.
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
  /// Their part of the hash.
  template <class Slot>
  [[nodiscard]] static std::uint64_t read_values(Slot slot, std::size_t length,
                                                 std::byte* values) noexcept {
    std::uint64_t mark = 0;
    for (std::size_t at = 0, i = 1 + std::tuple_size_v<Words>; at < length; at += word_bytes, ++i) {
      auto const word = slot.load(i);
      mark += term(i, word);
      copy_word(values + at, &word, length - at);
    }
    return mark;
  }
};

}  // namespace lend::group
