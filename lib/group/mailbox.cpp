// SPDX-License-Identifier: MIT OR Apache-2.0
// A device may write the words of a note in any order. The first one has the note's number and a
// hash of the others, by which the reader knows that it has read all of them.
#include <group/mailbox.hpp>

#include <bit>
#include <cstring>
#include <utility>

namespace lend::group {

namespace {

constexpr std::size_t head_words = 1 + sizeof(Note) / sizeof(std::uint64_t);

/// High bits of a product depend on all of its factors'.
std::uint64_t mark_of(std::uint32_t number, WrittenNote::Words const& words,
                      std::size_t count) noexcept {
  std::uint64_t value = number;
  for (std::size_t i = 1; i < count; ++i)
    value = (value ^ value >> 32 ^ words[i]) * 0x9e3779b97f4a7c15;
  return static_cast<std::uint64_t>(number) << 32 | value >> 32;
}

}  // namespace

std::size_t WrittenNote::encode(std::byte* target, std::uint32_t number, Note const& note,
                                std::span<std::byte const> values) noexcept {
  Words words;
  auto const size = length(values.size());
  auto const count = size / sizeof(std::uint64_t);
  words[count - 1] = 0;  // what follows the values
  std::memcpy(&words[1], &note, sizeof note);
  if (!values.empty()) std::memcpy(&words[head_words], values.data(), values.size());
  words[0] = mark_of(number, words, count);
  std::memcpy(target, words.data(), size);
  return size;
}

Result<Mailbox> Mailbox::create(ProtectionDomain const& domain, std::uint32_t window) {
  auto const slots = std::bit_ceil(window);
  LEND_TRY(memory, domain.unsafe_allocate_exposed((slots + std::size_t{1}) * WrittenNote::bytes,
                                                  RemoteAccess::write));
  LEND_TRY(place, memory.bytes());
  return Mailbox{std::move(memory), place.data(), slots};
}

Mailbox::Mailbox(MemoryRegion memory, std::byte const* place, std::uint32_t slots) noexcept
    : memory_{std::move(memory)}, place_{place}, slots_{slots} {}

std::uint32_t Mailbox::slots_in(std::size_t bytes) noexcept {
  auto const slots = bytes / WrittenNote::bytes - 1;
  return bytes >= 2 * WrittenNote::bytes && slots <= UINT32_MAX && std::has_single_bit(slots)
             ? static_cast<std::uint32_t>(slots)
             : 0;
}

std::optional<std::uint32_t> Mailbox::take_freed() noexcept {
  auto const word = load(place_, 0);
  auto const freed = static_cast<std::uint32_t>(word);
  if (word == freed_word_ || word != word_of(freed)) return {};
  freed_word_ = word;
  return freed;
}

Result<bool> Mailbox::take(Note& note, Values& values) noexcept {
  std::byte const* const slot = next_slot();
  WrittenNote::Words words;
  words[0] = load(slot, 0);
  if (words[0] >> 32 != next_) return false;
  for (std::size_t i = 1; i < head_words; ++i) words[i] = load(slot, i);
  std::memcpy(static_cast<void*>(&note), &words[1], sizeof note);
  if (note.length > WrittenNote::values_max)
    return Error{Errc::incompatible_peer, "a note that a rank wrote is damaged"};
  auto const count = WrittenNote::length(note.length) / sizeof(std::uint64_t);
  for (std::size_t i = head_words; i < count; ++i) words[i] = load(slot, i);
  if (mark_of(next_, words, count) != words[0]) return false;
  std::memcpy(values.data(), &words[head_words], note.length);
  ++next_;
  return true;
}

}  // namespace lend::group
