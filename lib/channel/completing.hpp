// SPDX-License-Identifier: MIT OR Apache-2.0
// From a completion to whoever asks for it: the bytes come back, then the slot is settled. Inline,
// so that each layer pays for one call. The thread of the channel.
#pragma once

#include <channel/channel_state.hpp>
#include <verbs/polling.hpp>

namespace lend {

inline void ChannelState::give_back_all(SlotId id, Slot& slot) noexcept {
  LentPiece* const pieces = pieces_of(id);
  for (; slot.loans > 0; --slot.loans) {
    auto& [loan, region] = pieces[slot.loans - 1];
    end_loan(loan, region);
  }
}

[[gnu::always_inline]] inline void ChannelState::end(SlotId id, Slot& slot) noexcept {
  give_back_all(id, slot);
  --outstanding(slot.operation);
  if (slot.scope != nullptr) {
    --slot.scope->outstanding;
    if (slot.operation == Operation::receive) --slot.scope->receives_outstanding;
  }
  slot.finished = true;
}

[[gnu::always_inline]] inline void ChannelState::settle(SlotId id, Slot& slot) noexcept {
  if (!slot.held) [[unlikely]]
    settle_without_handle(id, slot);
  else if (slot.scope != nullptr)
    ++slot.scope->finished;
}

[[gnu::always_inline]] inline void ChannelState::succeed(SlotId id, Slot& slot,
                                                         CompletedWork const& done) noexcept {
  if (slot.before.is_valid()) [[unlikely]]
    succeed_before(slot);
  end(id, slot);
  slot.success = {slot.operation, slot.operation == Operation::receive ? done.bytes : slot.bytes,
                  done.immediate};
  settle(id, slot);
}

[[gnu::always_inline]] inline int ChannelState::take() noexcept {
  struct Visit {
    ChannelState& channel;
    [[gnu::always_inline]] void operator()(std::uint64_t id, CompletedWork const& done) const {
      if (Slot* const slot = channel.slots_.find(SlotId{id})) [[likely]]
        channel.succeed(SlotId{id}, *slot, done);
      else
        channel.end_without_slot(id, nullptr);
    }
    void operator()(std::uint64_t id, FailedWork const& failed) const {
      if (Slot* const slot = channel.slots_.find(SlotId{id}))
        channel.fail(SlotId{id}, *slot, failed);
      else
        channel.end_without_slot(id, &failed);
    }
  };
  return take_completions(*raw_completions_, poll_batch, Visit{*this});
}

[[gnu::always_inline]] inline ChannelState::Answer ChannelState::take_result(SlotId id, Slot& slot,
                                                                             WorkSuccess& success,
                                                                             Error& why) noexcept {
  if (slot.scope != nullptr) --slot.scope->finished;
  bool const has_failed = slot.failed;
  if (has_failed) [[unlikely]]
    why = told(slot.failure);
  else
    success = slot.success;
  release(id, slot);
  return has_failed ? Answer::failed : Answer::succeeded;
}

[[gnu::always_inline]] inline ChannelState::Answer ChannelState::wait(SlotId id, Deadline deadline,
                                                                      WorkSuccess& success,
                                                                      Error& why) noexcept {
  Slot* const slot = slots_.find(id);
  if (slot == nullptr) [[unlikely]] {
    why = scope_has_ended();
    return Answer::failed;
  }
  if (!slot->finished) {
    if (int const taken = take(); taken < 0) [[unlikely]] {
      why = of_this_work(poll_failure(taken), id, *slot);
      return Answer::unknown;
    }
    if (!slot->finished && !wait_longer(id, *slot, deadline, why)) return Answer::unknown;
  }
  if (slot->failed) [[unlikely]]
    learn_reason(Deadline::never());
  return take_result(id, *slot, success, why);
}

}  // namespace lend
