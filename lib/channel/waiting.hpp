// SPDX-License-Identifier: MIT OR Apache-2.0
// Polls and waits for one request, for handles. Inline, so that each layer pays for one call. The
// thread of the channel.
#pragma once

#include <channel/channel_state.hpp>
#include <verbs/polling.hpp>

namespace lend::channel {

/// The state of a request. Except for success, the channel's last_error() has the error.
enum class WorkAnswer : std::uint8_t {
  succeeded,  ///< and the slot is free
  failed,     ///< and the slot is free, or was before
  not_over,
  unknown,  ///< the work is still outstanding, and the error says why its state is unknown
};

// Functions and no class, because a call out of line would keep an object in memory.

/// Polls once at most.
[[nodiscard]] WorkAnswer ask_for(ChannelState& channel, SlotId id, WorkSuccess& success) noexcept;
/// False with an error if it gives up; otherwise `slot` has finished.
[[nodiscard]] bool wait_longer(ChannelState& channel, SlotId id, Slot& slot,
                               Deadline deadline) noexcept;
/// The error of blocking work that is aborted at its deadline.
[[nodiscard]] Error aborted_at_deadline(ChannelState& channel, SlotId id,
                                        Deadline deadline) noexcept;
// Set last_error(): for a handle whose slot is used again, for a failed poll, and for failed work,
// whose slot is then free.
void note_gone(ChannelState& channel) noexcept;
void note_poll_failure(ChannelState& channel, int result, SlotId id, Slot const& slot) noexcept;
void collect_failure(ChannelState& channel, Slot& slot) noexcept;

/// Polls for `slot` of `id`, mostly the only outstanding one. As Progress::poll().
[[nodiscard, gnu::always_inline]] inline int poll_for(ChannelState& channel, SlotId id,
                                                      Slot& slot) noexcept {
  verbs::PolledCompletions entries;
  int const count = entries.poll(channel.raw_completions, verbs::poll_batch);
  if (count == 1 && entries[0].id() == id.value &&
      entries[0].queue_pair_number() == channel.connection.number() && !entries[0].has_failed())
      [[likely]]
    channel.in_flight.succeed(slot, entries[0]);
  else
    channel.progress.hand_out(entries, count);
  return count;
}

[[nodiscard, gnu::always_inline]] inline WorkAnswer collect(ChannelState& channel, Slot& slot,
                                                            WorkSuccess& success) noexcept {
  if (slot.failed) [[unlikely]] {
    collect_failure(channel, slot);
    return WorkAnswer::failed;
  }
  channel.in_flight.collect(slot, success);
  return WorkAnswer::succeeded;
}

/// Waits for work that certainly has its slot; never not_over.
[[nodiscard, gnu::always_inline]] inline WorkAnswer wait_for_own(ChannelState& channel, SlotId id,
                                                                 Deadline deadline,
                                                                 WorkSuccess& success) noexcept {
  Slot& slot = channel.in_flight.slot(id);
  if (!slot.finished) {
    if (int const count = poll_for(channel, id, slot); count < 0) [[unlikely]] {
      note_poll_failure(channel, count, id, slot);
      return WorkAnswer::unknown;
    }
    if (!slot.finished && !wait_longer(channel, id, slot, deadline)) return WorkAnswer::unknown;
  }
  return collect(channel, slot, success);
}

/// The same for any id.
[[nodiscard, gnu::always_inline]] inline WorkAnswer wait_for(ChannelState& channel, SlotId id,
                                                             Deadline deadline,
                                                             WorkSuccess& success) noexcept {
  if (!channel.in_flight.has(id)) [[unlikely]] {
    note_gone(channel);
    return WorkAnswer::failed;
  }
  return wait_for_own(channel, id, deadline, success);
}

}  // namespace lend::channel
