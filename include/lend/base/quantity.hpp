// SPDX-License-Identifier: MIT OR Apache-2.0
// Integers of different kinds that do not convert to each other. Values; any thread.
#pragma once

#include <lend/base/language.hpp>

#include <compare>
#include <cstdint>
#include <optional>

namespace lend {

/// A 24-bit number; `Tag` makes each kind a type of its own.
template <class Tag>
class Number24 {
 public:
  static constexpr std::uint32_t largest = 0xff'ffff;

  constexpr Number24() = default;
  /// Nothing if `value` needs more than 24 bits.
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
