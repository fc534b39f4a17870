// SPDX-License-Identifier: MIT OR Apache-2.0
// How a handle finds its channel, or learns that it is gone. Any thread.
#pragma once

#include <lend/channel/pending_work.hpp>

#include <atomic>
#include <cstdint>

namespace lend {

/// One per living channel; its memory is reused for later channels and never freed, so that a
/// handle may look at it at any time. The epoch changes when a channel moves in or out.
struct ChannelAnchor {
  std::atomic<std::uint64_t> epoch{0};  // odd: a channel lives here
  ChannelState* state = nullptr;
  ChannelAnchor* next_free = nullptr;
};

/// To `state`; with a null anchor when memory ran out.
[[nodiscard]] ChannelReference take_anchor(ChannelState* state) noexcept;
void give_back_anchor(ChannelAnchor* anchor) noexcept;

/// The channel that `reference` means; null once it is gone.
[[nodiscard]] inline ChannelState* living(ChannelReference reference) noexcept {
  ChannelAnchor* const anchor = reference.anchor;
  if (anchor == nullptr) return nullptr;
  // Acquire: pairs with the release in take_anchor().
  if (anchor->epoch.load(std::memory_order_acquire) != reference.epoch) return nullptr;
  ChannelState* const state = anchor->state;
  if (state == nullptr) __builtin_unreachable();  // so that no caller asks again
  return state;
}

}  // namespace lend
