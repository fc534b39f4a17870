// SPDX-License-Identifier: MIT OR Apache-2.0
// The word that ties a memory window to one queue pair, and to one connection of it.
//
// Where a registration names its protection domain, a window names the queue pair that bound it:
// so a key of a window is good for the peer of that queue pair alone, and for no process once the
// queue pair was reset or destroyed.
// Source: InfiniBand Architecture Specification vol. 1, 10.6.7.2.
#pragma once

#include <soft/segment/layout.hpp>

#include <cstdint>

namespace lend::soft {

/// No protection domain has such a number: they count from 1.
inline constexpr std::uint32_t window_scope_bit = 1u << 31;

/// The program chooses these bits of a window's key. Source: rdma-core libibverbs/verbs.h,
/// ibv_inc_rkey().
inline constexpr std::uint32_t chosen_bits = 0xff;

/// Of the windows that queue pair `index`, which is `target`, has bound since its latest reset.
[[nodiscard]] inline std::uint32_t window_scope_of(SharedQueuePair const& target,
                                                   std::uint32_t index) noexcept {
  constexpr std::uint32_t epochs = window_scope_bit >> index_bits;
  return window_scope_bit | index * epochs | target.epoch.get() % epochs;
}

/// The peer ends the window by a send that returns it. Once for each message: true again while that
/// message could not be completed. False: it is not bound by that queue pair, whose rx the caller
/// holds.
[[nodiscard]] inline bool begin_return(Segment& segment, std::uint32_t key,
                                       std::uint32_t scope) noexcept {
  auto& window = segment.regions[index_of_key(key)];
  if (key == 0 || window.domain.get() != scope) return false;
  if (window.key.load(std::memory_order_relaxed) != key) return window.returned.get() == key;
  window.returned.set(key);
  // Release pairs with the acquire of the owner that asks whether the window is bound.
  window.key.store(0, std::memory_order_release);
  return true;
}
/// That message was completed.
inline void end_return(Segment& segment, std::uint32_t key) noexcept {
  segment.regions[index_of_key(key)].returned.set(0);
}

}  // namespace lend::soft
