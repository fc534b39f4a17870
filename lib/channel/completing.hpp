// SPDX-License-Identifier: MIT OR Apache-2.0
// From a completion to whoever asks for it: the bytes come back, then the slot is settled. Inline,
// so that each layer pays for one call. The thread of the channel.
#pragma once

#include <channel/channel_state.hpp>
#include <verbs/polling.hpp>
#include <verbs/region_state.hpp>

namespace lend {

/// Out of line: a loop among what is inline below would cost even one loan ten instructions.
void give_back_all_but_one(Slot& slot) noexcept;

[[gnu::always_inline]] inline void ChannelState::give_back_all(Slot& slot) noexcept {
  if (slot.loans > 1) [[unlikely]]
    give_back_all_but_one(slot);
  if (slot.loans == 1) end_loan(slot.pieces->loan, slot.pieces->region);
  slot.loans = 0;
}

inline void ChannelState::release(Slot& slot) noexcept {
  slot.finished = false;
  slot.work.immediate = std::optional<std::uint32_t>{};
  if (slot.failed) [[unlikely]] {
    slot.failed = false;
    slot.failure = Error{};
  }
  slots_.free(slot);
}

[[gnu::always_inline]] inline void ChannelState::end(Slot& slot) noexcept {
  give_back_all(slot);
  --outstanding(slot.work.operation);
  --slot.scope->outstanding;
  slot.finished = true;
}

[[gnu::always_inline]] inline void ChannelState::settle_without_handle(Slot& slot) noexcept {
  ++slot.scope->unpolled;
  if (slot.failed) [[unlikely]]
    note_failure(slot);
  release(slot);
}

[[gnu::always_inline]] inline void ChannelState::settle(Slot& slot) noexcept {
  if (slot.held)
    ++slot.scope->finished;
  else
    settle_without_handle(slot);
}

[[gnu::always_inline]] inline void ChannelState::drop(SlotId id) noexcept {
  if (!slots_.has(id)) return;
  Slot& slot = slots_.tenant(id);
  slot.held = false;
  if (!slot.finished) return;
  --slot.scope->finished;
  settle_without_handle(slot);
}

[[gnu::always_inline]] inline void ChannelState::succeed(Slot& slot) noexcept {
  if (slot.before.is_valid()) [[unlikely]]
    succeed_before(slot);
  end(slot);
  settle(slot);
}

[[gnu::always_inline]] inline void ChannelState::take_success(Slot& slot,
                                                              CompletionEntry entry) noexcept {
  if (slot.work.operation == Operation::receive) {
    slot.work.bytes = entry.bytes();
    slot.work.immediate = entry.immediate();
  }
  succeed(slot);
}

[[gnu::always_inline]] inline int ChannelState::take_own(SlotId id, Slot& slot) noexcept {
  TakenCompletions entries;
  int const count = entries.take(*raw_completions_, poll_batch);
  if (count == 1 && entries[0].id() == id.value && !entries[0].has_failed()) [[likely]]
    take_success(slot, entries[0]);
  else
    take_all(entries, count);
  return count;
}

[[gnu::always_inline]] inline ChannelState::Answer ChannelState::take_result(
    Slot& slot, WorkSuccess& success) noexcept {
  --slot.scope->finished;
  if (slot.failed) [[unlikely]] {
    take_failure(slot);
    return Answer::failed;
  }
  success = slot.work;
  release(slot);
  return Answer::succeeded;
}

[[gnu::always_inline]] inline ChannelState::Answer ChannelState::wait_for_own(
    SlotId id, Deadline deadline, WorkSuccess& success) noexcept {
  Slot& slot = slots_.tenant(id);
  if (!slot.finished) {
    if (int const taken = take_own(id, slot); taken < 0) [[unlikely]] {
      reason_ = of_this_work(poll_failure(taken), id, slot);
      return Answer::unknown;
    }
    if (!slot.finished && !wait_longer(id, slot, deadline)) return Answer::unknown;
  }
  return take_result(slot, success);
}

[[gnu::always_inline]] inline ChannelState::Answer ChannelState::wait(
    SlotId id, Deadline deadline, WorkSuccess& success) noexcept {
  if (!slots_.has(id)) [[unlikely]] {
    reason_ = work_is_gone();
    return Answer::failed;
  }
  return wait_for_own(id, deadline, success);
}

}  // namespace lend
