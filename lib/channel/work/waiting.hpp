// SPDX-License-Identifier: MIT OR Apache-2.0
// Polls and waits for one request, for handles. Inline, so that each layer pays for one call. The
// thread of the channel.
#pragma once

#include <channel/state/channel_state.hpp>
#include <verbs/queue/polling.hpp>

namespace lend::channel {

// Functions and no class, because a call out of line would keep an object in memory. Except for
// success and not_over, the channel's last_error() has the error of an answer.

/// Polls once at most.
[[nodiscard]] WorkAnswer ask_for(ChannelState& channel, SlotId id) noexcept;
/// After a first poll that answered `polled` and did not end the work: `entries` are what it
/// brought, and not yet handed out.
[[nodiscard]] WorkAnswer wait_longer(ChannelState& channel, SlotId id,
                                     verbs::PolledCompletions& entries, int polled,
                                     Deadline deadline) noexcept;
/// The same before that poll.
[[nodiscard]] WorkAnswer wait_longer(ChannelState& channel, SlotId id, Deadline deadline) noexcept;
/// Aborts blocking work, because the caller gets its bytes back when its call returns; last_error()
/// says why. It may have succeeded nevertheless; otherwise last_error() has its error.
[[nodiscard]] WorkAnswer abort_and_ask(ChannelState& channel, SlotId id,
                                       Deadline deadline) noexcept;
/// The handle takes the result of finished work. Its slot is then free.
[[nodiscard]] WorkAnswer collect(ChannelState& channel, Slot& slot) noexcept;
/// Of a handle whose slot is used again.
[[nodiscard]] WorkAnswer answer_of_gone(ChannelState& channel) noexcept;

/// The result of a request that succeeded, from its completion.
[[nodiscard, gnu::always_inline]] inline WorkAnswer answer_of(ChannelState& channel,
                                                              verbs::CompletionEntry entry,
                                                              Operation operation,
                                                              std::uint64_t bytes) noexcept {
  if (operation != Operation::receive) return {operation, bytes};
  WorkAnswer const answer{operation, entry.bytes()};
  if (entry.has_returned()) [[unlikely]]
    return answer.with_returned(channel.note_returned(entry.returned()));
  auto const immediate = entry.immediate();
  return immediate ? answer.with_immediate(*immediate) : answer;
}

/// Whether a completion is the success of `id`.
[[nodiscard, gnu::always_inline]] inline bool is_success_of(ChannelState const& channel, SlotId id,
                                                            verbs::CompletionEntry entry) noexcept {
  return entry.id() == id.value && entry.queue_pair_number() == channel.connection.number() &&
         !entry.has_failed();
}

/// Whether the success of `id` is the last that a poll brought, which answered `polled`: there the
/// message of a peer is, behind the ends of the sends before it. Then it is the first of `entries`
/// from here on, and all others were handed out; else none was. To be asked last: each answer may
/// hand out.
[[nodiscard, gnu::always_inline]] inline bool ends_with_success_of(
    ChannelState& channel, SlotId id, verbs::PolledCompletions& entries, int polled) noexcept {
  if (polled == 1) [[likely]]
    return is_success_of(channel, id, entries[0]);
  if (polled < 1 || !is_success_of(channel, id, entries[polled - 1])) return false;
  channel.progress.hand_out(entries, polled - 1);
  entries.keep_last(polled);
  return true;
}

/// Ends a request that is_plain(), and of whose success `entry` tells: the handle takes the result
/// here and now.
[[nodiscard, gnu::always_inline]] inline WorkAnswer end_at_once(
    ChannelState& channel, SlotId id, Slot& slot, verbs::CompletionEntry entry) noexcept {
  InFlight& in_flight = channel.in_flight;
  Operation const operation = slot.work.operation;
  std::uint64_t const bytes = slot.work.bytes;
  in_flight.observed.probe_success(slot, slot.work.operation);
  if (in_flight.observed.is_on()) [[unlikely]]
    in_flight.observed.succeed(slot, entry);
  // Two straight lines, because compilers would ask twice which queue it is of.
  if (operation != Operation::receive) {
    in_flight.note_over(Operation::send, *slot.scope);
    in_flight.free_at_once(slot, id);
    return {operation, bytes};
  }
  in_flight.note_over(Operation::receive, *slot.scope);
  in_flight.free_at_once(slot, id);
  return answer_of(channel, entry, Operation::receive, bytes);
}

/// Waits for any work; never not_over.
[[nodiscard, gnu::always_inline]] inline WorkAnswer wait_for(ChannelState& channel, SlotId id,
                                                             Deadline deadline) noexcept {
  InFlight& in_flight = channel.in_flight;
  if (!in_flight.slots.has_still(id)) [[unlikely]]
    return answer_of_gone(channel);
  Slot& slot = in_flight.slots.tenant(id);
  if (!in_flight.is_plain(slot)) [[unlikely]]
    return wait_longer(channel, id, deadline);
  verbs::PolledCompletions entries;
  int const polled = entries.poll(channel.raw_completions, verbs::poll_batch);
  if (!ends_with_success_of(channel, id, entries, polled)) [[unlikely]]
    return wait_longer(channel, id, entries, polled, deadline);
  return end_at_once(channel, id, slot, entries[0]);
}

}  // namespace lend::channel
