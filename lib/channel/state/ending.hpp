// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends all outstanding work of a channel, whatever the peer and the device do. The thread of the
// channel.
#pragma once

#include <channel/state/channel_state.hpp>
#include <lend/base/export.hpp>

namespace lend::channel {

/// Ends the work of a channel as a whole, because a queue pair is aborted as a whole. In order of
/// force: abort (error state, then poll the completions), abandon (destroy the queue pair and count
/// the remaining work as flushed), keep (if the device refuses even that).
class Ending {
 public:
  explicit Ending(ChannelState& channel) noexcept : channel_{channel} {}

  /// Breaks the channel for a reason of lend's own and gets all outstanding work back.
  void abort_all(Error const& reason) noexcept;
  /// The device may have taken the request of `slot`, though it answered `refusal`: counts it as
  /// posted, and aborts all. The error of the post.
  [[nodiscard]] Error abort_unclear(SlotId id, Slot& slot, Error const& refusal) noexcept;
  /// Moves the queue pair to the error state, without waiting; false if refused.
  bool start_abort() noexcept;
  /// On a broken channel, without waiting: abandons work that the device has not returned in time.
  void hurry_abort() noexcept;
  /// Destroys the queue pair; what it has not returned counts as flushed.
  void abandon() noexcept;

  /// Before the channel is prepared again: nothing is outstanding, and the queue pair is gone.
  LEND_EXPORT void end_connection(Error const& reason) noexcept;
  /// The same before it is destroyed; its handles are stale, and its scopes report the failures.
  void end_channel() noexcept;

 private:
  void destroy_queue_pair() noexcept;
  /// Of a channel with a pool, before that: waits for the pieces that the device is to give back.
  void take_last_pieces() noexcept;

  ChannelState& channel_;
};

}  // namespace lend::channel
