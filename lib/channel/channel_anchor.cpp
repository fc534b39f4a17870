// SPDX-License-Identifier: MIT OR Apache-2.0
// Anchors are taken and given back, never freed. Any thread.
#include <channel/channel_anchor.hpp>

#include <mutex>
#include <new>

namespace lend {

namespace {

// Free anchors. Neither is ever destroyed: a handle or channel of static storage may outlive any
// order of destruction.
constinit std::mutex free_mutex;
constinit ChannelAnchor* free_anchors = nullptr;

}  // namespace

ChannelReference take_anchor(ChannelState* state) noexcept {
  ChannelAnchor* anchor = nullptr;
  {
    std::lock_guard const lock{free_mutex};
    anchor = free_anchors;
    if (anchor != nullptr) free_anchors = anchor->next_free;
  }
  if (anchor == nullptr) anchor = new (std::nothrow) ChannelAnchor;
  if (anchor == nullptr) return {};
  anchor->state = state;
  // Release: pairs with the acquire in living(), which then reads `state`.
  return {anchor, anchor->epoch.fetch_add(1, std::memory_order_release) + 1};
}

void give_back_anchor(ChannelAnchor* anchor) noexcept {
  anchor->epoch.fetch_add(1, std::memory_order_release);
  std::lock_guard const lock{free_mutex};
  anchor->next_free = free_anchors;
  free_anchors = anchor;
}

}  // namespace lend
