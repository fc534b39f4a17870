// SPDX-License-Identifier: MIT OR Apache-2.0
// Anchors are acquired and released, never freed. Any thread.
#include <channel/parts/channel_entry.hpp>
#include <lend/base/stop.hpp>

#include <pthread.h>

#include <mutex>
#include <new>

namespace lend::channel {

namespace {

// Free anchors. Neither is ever destroyed: a handle or channel of static storage may outlive any
// order of destruction.
constinit std::mutex free_mutex;
constinit ChannelAnchor* free_anchors = nullptr;

// Held over a fork, so that the child can make channels of its own.
[[maybe_unused]] int const held_over_forks = ::pthread_atfork(
    [] { free_mutex.lock(); }, [] { free_mutex.unlock(); }, [] { free_mutex.unlock(); });

}  // namespace

ChannelReference acquire_anchor(ChannelState* state) noexcept {
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

void leave_anchor(ChannelAnchor* anchor) noexcept {
  anchor->epoch.fetch_add(1, std::memory_order_release);
}

void release_anchor(ChannelAnchor* anchor) noexcept {
  leave_anchor(anchor);
  std::lock_guard const lock{free_mutex};
  anchor->next_free = free_anchors;
  free_anchors = anchor;
}

#if !defined(__x86_64__) && !defined(__aarch64__)
void const* ChannelUse::this_thread() noexcept {
  static thread_local char one;
  return &one;
}
#endif

void ChannelUse::stop_for_two_threads() noexcept {
  stop("a Channel, its WaitSet, or a scope or handle of it, was used by two threads at once");
}

}  // namespace lend::channel
