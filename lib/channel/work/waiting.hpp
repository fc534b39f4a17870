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
/// After a first poll that answered `polled` and did not end the work. False with an error if it
/// gives up; otherwise `slot` has finished.
[[nodiscard]] bool wait_longer(ChannelState& channel, SlotId id, Slot& slot, int polled,
                               Deadline deadline) noexcept;
/// The same for a handle: `entries` are what that poll brought, and not yet handed out.
[[nodiscard]] WorkAnswer wait_longer(ChannelState& channel, SlotId id,
                                     verbs::PolledCompletions const& entries, int polled,
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

/// One poll. Whether it found the success of `id`, and nothing else.
[[nodiscard, gnu::always_inline]] inline bool finds_only(ChannelState& channel, SlotId id,
                                                         verbs::PolledCompletions& entries,
                                                         int& polled) noexcept {
  polled = entries.poll(channel.raw_completions, verbs::poll_batch);
  return polled == 1 && entries[0].id() == id.value &&
         entries[0].queue_pair_number() == channel.connection.number() && !entries[0].has_failed();
}

/// Waits for any work; never not_over.
[[nodiscard, gnu::always_inline]] inline WorkAnswer wait_for(ChannelState& channel, SlotId id,
                                                             Deadline deadline) noexcept {
  InFlight& in_flight = channel.in_flight;
  if (!in_flight.has(id)) [[unlikely]]
    return answer_of_gone(channel);
  Slot& slot = in_flight.slot(id);
  if (!in_flight.is_plain(slot)) [[unlikely]]
    return wait_longer(channel, id, deadline);
  verbs::PolledCompletions entries;
  int polled = 0;
  if (!finds_only(channel, id, entries, polled)) [[unlikely]]
    return wait_longer(channel, id, entries, polled, deadline);
  Operation const operation = slot.work.operation;
  std::uint64_t const bytes = slot.work.bytes;
  in_flight.observed.probe_success(slot, slot.work.operation);
  if (in_flight.observed.is_on()) [[unlikely]]
    in_flight.observed.succeed(slot, entries[0]);
  // Two straight lines, because compilers would ask twice which queue it is of.
  if (operation != Operation::receive) {
    in_flight.note_over(Operation::send, *slot.scope);
    in_flight.free_at_once(slot, id);
    return {operation, bytes};
  }
  in_flight.note_over(Operation::receive, *slot.scope);
  in_flight.free_at_once(slot, id);
  return answer_of(channel, entries[0], Operation::receive, bytes);
}

}  // namespace lend::channel
