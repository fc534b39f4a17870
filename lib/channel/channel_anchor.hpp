// SPDX-License-Identifier: MIT OR Apache-2.0
// How a handle finds its channel, or learns that it is gone. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace lend {

class ChannelState;

/// One per living channel; its memory is reused for later channels and never freed, so that a
/// handle may look at it at any time. The epoch changes when a channel moves in or out.
struct ChannelAnchor {
  std::atomic<std::uint64_t> epoch{0};  // odd: a channel lives here
  ChannelState* state = nullptr;
  ChannelAnchor* next_free = nullptr;
};

/// Null when memory ran out.
[[nodiscard]] ChannelAnchor* take_anchor(ChannelState* state) noexcept;
void give_back_anchor(ChannelAnchor* anchor) noexcept;

}  // namespace lend
