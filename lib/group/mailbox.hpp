// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of a link to which the peer's device writes short notes, which so need no receive and no
// completion here. The thread of the group reads; the device may write at any time.
#pragma once

#include <group/note.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lend::group {

/// A slot of a mailbox, in whole words: no longer than what goes inline on most devices.
struct WrittenNote {
  static constexpr std::size_t bytes = 64;
  static constexpr std::size_t values_max = bytes - sizeof(std::uint64_t) - sizeof(Note);
  using Words = std::array<std::uint64_t, bytes / sizeof(std::uint64_t)>;

  /// Puts note number `number` of a link, counted from 1, to `target`, from where it is written to
  /// the peer's slot. Its length there.
  /// Shape:   `values` are note.length bytes, at most values_max; `target` has as many bytes as a
  ///          slot, or as the note.
  static std::size_t encode(std::byte* target, std::uint32_t number, Note const& note,
                            std::span<std::byte const> values) noexcept;
  [[nodiscard]] static std::size_t length(std::size_t values) noexcept {
    constexpr auto word = sizeof(std::uint64_t);
    return word + sizeof(Note) + (values + word - 1) / word * word;
  }
};

/// First the number of messages that the peer has freed, one word; then slots, in turn, as many as
/// the messages of a window or more.
class Mailbox {
 public:
  using Values = std::array<std::byte, WrittenNote::values_max>;

  /// Errors:  those of ProtectionDomain::unsafe_allocate_exposed().
  [[nodiscard]] static Result<Mailbox> create(ProtectionDomain const& domain, std::uint32_t window);
  /// The slots of a mailbox of so many bytes: a power of two, so that numbers may wrap; or none.
  [[nodiscard]] static std::uint32_t slots_in(std::size_t bytes) noexcept;
  /// Where note number `number` is written.
  [[nodiscard]] static std::size_t place_of(std::uint32_t number, std::uint32_t slots) noexcept {
    return (1 + (number & (slots - 1))) * WrittenNote::bytes;
  }

  [[nodiscard]] Result<RemoteRegion> remote() const noexcept { return memory_.remote(); }
  /// Whether the peer has written how many messages it has freed, since take_freed().
  [[nodiscard]] bool has_freed() const noexcept { return load(place_, 0) != freed_word_; }
  /// How many these are. Nothing: it has not, or a part of the word has come.
  [[nodiscard]] std::optional<std::uint32_t> take_freed() noexcept;
  /// As it is written, to place 0.
  [[nodiscard]] static std::uint64_t word_of(std::uint32_t freed) noexcept {
    return static_cast<std::uint64_t>(~freed) << 32 | freed;
  }
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
  /// Whether the next note has come, or a part of it.
  [[nodiscard]] bool has_next() const noexcept { return load(next_slot(), 0) >> 32 == next_; }
  /// The next note and its values. False: it has not come yet, or not all of it.
  /// Errors:  incompatible_peer  no rank writes such notes.
  [[nodiscard]] Result<bool> take(Note& note, Values& values) noexcept;

 private:
  Mailbox(MemoryRegion memory, std::byte const* place, std::uint32_t slots) noexcept;
  [[nodiscard]] std::byte const* next_slot() const noexcept {
    return place_ + place_of(next_, slots_);
  }
  /// A device of the same process writes as another thread would. That race is meant, and what it
  /// can bring is found by the mark; the sanitizer is not to see it.
  [[nodiscard, gnu::no_sanitize_thread]] static std::uint64_t load(std::byte const* place,
                                                                   std::size_t index) noexcept {
    return reinterpret_cast<std::uint64_t const volatile*>(place)[index];
  }

  MemoryRegion memory_;
  std::byte const* place_;  // in it
  std::uint32_t slots_;
  std::uint64_t freed_word_ = 0;  // that was taken last
  std::uint32_t next_ = 1;        // wraps
};

}  // namespace lend::group
