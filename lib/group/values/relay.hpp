// SPDX-License-Identifier: MIT OR Apache-2.0
// Values on their way between ranks that have no link: slots, with a piece of one rank's values
// each. The thread of the group.
#pragma once

#include <base/copy_bytes.hpp>
#include <group/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lend::group {

class Relay {
 public:
  /// Room for so many slots of so many bytes; `message_bytes` is the longest message.
  /// Throws std::bad_alloc. What it has it keeps.
  void reserve(std::size_t slots, std::size_t piece_bytes, std::size_t message_bytes) {
    if (slots_.size() < slots * piece_bytes) slots_.resize(slots * piece_bytes);
    if (packed_.size() < message_bytes) packed_.resize(message_bytes);
  }
  /// From here on a piece has so many bytes.
  void set_piece(std::size_t bytes) noexcept { piece_ = bytes; }

  [[nodiscard]] std::span<std::byte> slot(std::uint32_t index) noexcept {
    return std::span{slots_}.subspan(index * piece_, piece_);
  }
  /// Brings together what a step sends.
  void pack(Step::Slots const& slots) noexcept {
    if (slots.bit < 0 || piece_ == 0) return;
    for (std::uint32_t i = 0; i < slots.count; ++i)
      base::copy_bytes(std::span{packed_}.subspan(i * piece_, piece_), slot(slots.at(i)));
  }
  /// What it sends, or as many bytes.
  [[nodiscard]] std::span<std::byte const> message(Step::Slots const& slots) const noexcept {
    auto const length = slots.count * piece_;
    return slots.bit < 0 ? std::span{slots_}.subspan(slots.first * piece_, length)
                         : std::span{packed_}.first(length);
  }
  /// Shape:   `theirs` as long as message(slots).
  void put(Step::Slots const& slots, std::span<std::byte const> theirs) noexcept {
    if (piece_ == 0) return;
    for (std::uint32_t i = 0; i < slots.count; ++i)
      base::copy_bytes(slot(slots.at(i)), theirs.subspan(i * piece_, piece_));
  }

 private:
  std::vector<std::byte> slots_{}, packed_{};
  std::size_t piece_ = 0;
};

}  // namespace lend::group
