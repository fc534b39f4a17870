// SPDX-License-Identifier: MIT OR Apache-2.0
// Integers that do not mix. Values; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace lend {

/// A 24-bit number of one kind; `Tag` keeps kinds apart. Cannot hold more than 24 bits.
template <class Tag>
class Number24 {
 public:
  static constexpr std::uint32_t largest = 0xff'ffff;

  constexpr Number24() = default;
  /// Nothing when `value` needs more than 24 bits.
  [[nodiscard]] static constexpr std::optional<Number24> from(std::uint32_t value) noexcept {
    if (value > largest) return std::nullopt;
    return Number24{value};
  }
  /// The low 24 bits.
  [[nodiscard]] static constexpr Number24 truncated(std::uint32_t value) noexcept {
    return Number24{value & largest};
  }
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }
  friend constexpr auto operator<=>(Number24, Number24) = default;

 private:
  constexpr explicit Number24(std::uint32_t value) noexcept : value_{value} {}
  std::uint32_t value_ = 0;
};

/// Source: ibv_modify_qp(3), dest_qp_num and rq_psn/sq_psn: both travel in 24-bit header fields.
using QueuePairNumber = Number24<struct QueuePairNumberTag>;
using PacketSequenceNumber = Number24<struct PacketSequenceNumberTag>;

}  // namespace lend
