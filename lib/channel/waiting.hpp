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
/// After a first poll that answered `polled` and did not end the work. False with an error if it
/// gives up; otherwise `slot` has finished.
[[nodiscard]] bool wait_longer(ChannelState& channel, SlotId id, Slot& slot, int polled,
                               Deadline deadline) noexcept;
/// Aborts blocking work, because the caller gets its bytes back when its call returns; last_error()
/// says why. Whether the work succeeded nevertheless; otherwise last_error() has its error.
[[nodiscard]] bool abort_and_ask(ChannelState& channel, SlotId id, Deadline deadline,
                                 WorkSuccess& success) noexcept;
// Set last_error(): for a handle whose slot is used again; and for failed work, whose slot is then
// free.
void note_gone(ChannelState& channel) noexcept;
void collect_failure(ChannelState& channel, Slot& slot) noexcept;

/// The handle takes the result of finished work, and passes its success to `keep`.
template <class Keep>
[[nodiscard, gnu::always_inline]] inline WorkAnswer collect(ChannelState& channel, Slot& slot,
                                                            Keep&& keep) noexcept {
  if (slot.failed) [[unlikely]] {
    collect_failure(channel, slot);
    return WorkAnswer::failed;
  }
  keep(slot.work);
  channel.in_flight.collect(slot);
  return WorkAnswer::succeeded;
}

/// The result of a request that succeeded, from its completion.
[[nodiscard, gnu::always_inline]] inline WorkSuccess result_of(verbs::CompletionEntry entry,
                                                               Operation operation,
                                                               std::uint64_t bytes) noexcept {
  if (operation != Operation::receive) return {operation, bytes, std::nullopt};
  return {operation, entry.bytes(), entry.immediate()};
}

/// One poll. Whether it found the success of `id`, which may be ended at once, and nothing else.
[[nodiscard, gnu::always_inline]] inline bool finds_only(ChannelState& channel, SlotId id,
                                                         Slot const& slot,
                                                         verbs::PolledCompletions& entries,
                                                         int& polled) noexcept {
  polled = entries.poll(channel.raw_completions, verbs::poll_batch);
  return polled == 1 && entries[0].id() == id.value &&
         entries[0].queue_pair_number() == channel.connection.number() &&
         !entries[0].has_failed() && channel.in_flight.is_plain(slot);
}

/// Waits for any work, and passes its success to `keep`; never not_over.
template <class Keep>
[[nodiscard, gnu::always_inline]] inline WorkAnswer wait_for(ChannelState& channel, SlotId id,
                                                             Deadline deadline,
                                                             Keep&& keep) noexcept {
  InFlight& in_flight = channel.in_flight;
  if (!in_flight.has(id)) [[unlikely]] {
    note_gone(channel);
    return WorkAnswer::failed;
  }
  Slot& slot = in_flight.slot(id);
  if (!slot.finished) {
    verbs::PolledCompletions entries;
    int polled = 0;
    if (finds_only(channel, id, slot, entries, polled)) [[likely]] {
      keep(result_of(entries[0], slot.work.operation, slot.work.bytes));
      in_flight.note_over(slot.work.operation, *slot.scope);
      in_flight.free_at_once(slot);
      return WorkAnswer::succeeded;
    }
    channel.progress.hand_out(entries, polled);
    if (!slot.finished && !wait_longer(channel, id, slot, polled, deadline))
      return WorkAnswer::unknown;
  }
  return collect(channel, slot, keep);
}

}  // namespace lend::channel
