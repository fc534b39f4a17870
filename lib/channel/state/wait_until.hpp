// SPDX-License-Identifier: MIT OR Apache-2.0
// A wait of a channel for anything that completions bring. The thread of the channel.
#pragma once

#include <channel/state/channel_state.hpp>

#include <chrono>

namespace lend::channel {

/// Polls, with pauses by `waiter`, until `is_over()`, which is asked before each poll. False: not
/// before the deadline.
/// Errors:  those of ChannelState::poll().
template <class IsOver>
[[nodiscard]] Result<bool> wait_until(ChannelState& channel, Waiter& waiter, Deadline deadline,
                                      IsOver&& is_over) noexcept {
  while (!is_over()) {
    LEND_TRY(goes_on, channel.poll_or_pause(waiter, deadline));
    // The last look before a sleep may have found it.
    if (!goes_on) return is_over();
  }
  return true;
}

/// The same within a bound of lend's own. It empties the queue after it, for this process may have
/// missed it, and not the device.
template <class IsOver>
[[nodiscard]] Result<bool> wait_within(ChannelState& channel, std::chrono::nanoseconds bound,
                                       IsOver&& is_over) noexcept {
  Waiter waiter = channel.progress.make_waiter();
  LEND_TRY(came, wait_until(channel, waiter, within(bound), is_over));
  if (came) return true;
  channel.progress.empty_queue();
  return is_over();
}

}  // namespace lend::channel
