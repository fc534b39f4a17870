// SPDX-License-Identifier: MIT OR Apache-2.0
#include <channel/channel_anchor.hpp>
#include <lend/channel/pending_work.hpp>

#include <mutex>
#include <new>

namespace lend {

namespace {

// Free anchors. Neither is ever destroyed: a handle or channel of static storage may outlive any
// order of destruction.
constinit std::mutex free_mutex;
constinit ChannelAnchor* free_anchors = nullptr;

}  // namespace

ChannelAnchor* take_anchor(ChannelState* state) noexcept {
  ChannelAnchor* anchor = nullptr;
  {
    std::lock_guard const lock{free_mutex};
    anchor = free_anchors;
    if (anchor != nullptr) free_anchors = anchor->next_free;
  }
  if (anchor == nullptr) anchor = new (std::nothrow) ChannelAnchor;
  if (anchor == nullptr) return nullptr;
  anchor->state = state;
  // Release: pairs with the acquire in ChannelReference::get(), which then reads `state`.
  anchor->epoch.fetch_add(1, std::memory_order_release);
  return anchor;
}

void give_back_anchor(ChannelAnchor* anchor) noexcept {
  anchor->epoch.fetch_add(1, std::memory_order_release);
  std::lock_guard const lock{free_mutex};
  anchor->next_free = free_anchors;
  free_anchors = anchor;
}

ChannelReference::ChannelReference(ChannelAnchor* anchor) noexcept
    : anchor_{anchor}, epoch_{anchor->epoch.load(std::memory_order_relaxed)} {}

ChannelState* ChannelReference::get() const noexcept {
  if (anchor_ == nullptr) return nullptr;
  // Acquire: pairs with the release in take_anchor().
  return anchor_->epoch.load(std::memory_order_acquire) == epoch_ ? anchor_->state : nullptr;
}

}  // namespace lend
