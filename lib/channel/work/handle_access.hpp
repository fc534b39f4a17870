// SPDX-License-Identifier: MIT OR Apache-2.0
// What waits for many handles ask of each. The thread of its channel.
#pragma once

#include <channel/state/channel_state.hpp>
#include <lend/channel/pending_work.hpp>

namespace lend::channel {

struct HandleAccess {
  /// Whether it has taken no result yet, and was not moved from.
  [[nodiscard]] static bool is_pending(PendingWork const& work) noexcept {
    return work.seen_ == PendingWork::Seen::nothing && work.channel_.anchor != nullptr;
  }
  /// The id of its work, which is left to who has that: dropping the handle drops no result.
  [[nodiscard]] static SlotId release(PendingWork work) noexcept {
    work.channel_ = {};
    return SlotId{work.id_};
  }
  /// Null once it is gone.
  [[nodiscard]] static ChannelState* channel_of(PendingWork const& work) noexcept {
    return living(work.channel_);
  }
  /// Whether poll() may do more than poll the queue: there is a result, or the work is to be posted
  /// or brought back first.
  [[nodiscard]] static bool is_worth_a_poll(PendingWork const& work) noexcept {
    ChannelState* const channel = living(work.channel_);
    if (channel == nullptr || channel->is_broken()) return true;
    Slot const* const slot = channel->in_flight.find(SlotId{work.id_});
    return slot == nullptr || slot->finished || slot->unposted;
  }
};

}  // namespace lend::channel
