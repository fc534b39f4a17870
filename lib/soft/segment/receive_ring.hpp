// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue of posted receives as its owner describes it to peers. The description is checked before
// it is used. Read under the owner's rx lock, or only as a hint.
#pragma once

#include <soft/segment/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lend::soft {

/// From one receive of so many pieces to the next.
[[nodiscard]] constexpr std::uint32_t receive_stride_for(std::uint32_t pieces) noexcept {
  return static_cast<std::uint32_t>(
      whole_lines(sizeof(SharedReceive) - 3 * sizeof(SharedPiece) + pieces * sizeof(SharedPiece)));
}

/// Maximum elements of a receive of `stride` bytes.
[[nodiscard]] inline std::uint32_t pieces_of_stride(std::uint32_t stride) noexcept {
  return std::min(pieces_max, (stride - 16) / 16);
}

/// The receive at its position becomes valid; all of it was written.
inline void make_valid(SharedReceive& receive, std::uint64_t position) noexcept {
  // Release pairs with the acquire in is_valid().
  receive.sequence.store(position + 1, std::memory_order_release);
}
[[nodiscard]] inline bool is_valid(SharedReceive const& receive, std::uint64_t position) noexcept {
  return receive.sequence.load(std::memory_order_acquire) == position + 1;
}

/// The target's receive ring as it describes it now, bounds-checked; null when that is nonsense.
struct ReceiveRing {
  std::byte* base;
  std::uint64_t mask;
  std::uint32_t stride;

  [[nodiscard]] SharedReceive& at(std::uint64_t position) const noexcept {
    return *reinterpret_cast<SharedReceive*>(base + (position & mask) * stride);
  }
  [[nodiscard]] std::uint32_t pieces() const noexcept { return pieces_of_stride(stride); }
};

[[nodiscard]] inline ReceiveRing receive_ring_of(Segment& segment,
                                                 SharedQueuePair const& target) noexcept {
  std::uint64_t const mask = target.ring_mask.get();
  std::uint32_t const stride = target.ring_stride.get();
  if (stride < cache_line || stride % cache_line != 0) return {nullptr, 0, 0};
  return {ring_at(segment, target.ring_offset.get(), mask + 1, stride), mask, stride};
}

}  // namespace lend::soft
