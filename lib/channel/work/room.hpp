// SPDX-License-Identifier: MIT OR Apache-2.0
// Waiting for room to post. The thread of the channel.
#pragma once

#include <channel/state/channel_state.hpp>

#include <optional>

namespace lend::channel {

/// One post's wait for room.
struct RoomWait {
  Waiter waiter;
  std::optional<Deadline> patience{};  // with a device that is full without outstanding work
  bool is_noted = false;               // an observer counts the post once
};

/// queue_full if handles hold every slot, so that no wait makes room.
[[nodiscard]] Result<void> check_slots(InFlight& in_flight) noexcept;
/// After a post that found no room. Refuses if no wait makes any: handles hold every slot, or the
/// device has been full for long with nothing outstanding, since the first call with `patience`.
[[nodiscard]] Result<void> check_for_room(ChannelState& channel, Operation operation,
                                          std::optional<Deadline>& patience) noexcept;
/// There was no room for it until the deadline.
[[nodiscard]] Error no_room_in_time(Operation operation, Deadline deadline) noexcept;
/// The error of a receive on a channel with a pool.
[[nodiscard]] Error has_pool_error() noexcept;
/// Waits until a post of this operation has room, for at least one poll, because a device has its
/// own count.
[[nodiscard]] Result<void> wait_for_room(ChannelState& channel, Operation operation,
                                         Deadline deadline, RoomWait& wait) noexcept;

}  // namespace lend::channel
