// SPDX-License-Identifier: MIT OR Apache-2.0
// From a completion to whoever asks for it: the bytes come back, then the slot is settled.
#include <base/giving_up.hpp>
#include <channel/channel_state.hpp>
#include <verbs/polling.hpp>

#include <string>
#include <utility>

namespace lend {

namespace {

// A look costs a system call: one in 512 is lost in the cost of the polls, and a wait that naps
// 50 µs at a time looks every 30 ms.
constexpr std::uint32_t empty_polls_per_look = 512;
// How long the reason for a flush may be on its way through the kernel.
constexpr std::chrono::milliseconds reason_bound{200};

// Out of memory while noting a failure: the count stays right, the text is lost.
void keep(std::vector<Error>& failures, Error const& failure) noexcept {
  try {
    failures.push_back(failure);
  } catch (std::bad_alloc const&) {
  }
}

}  // namespace

// Out of line where work had loans.
[[gnu::always_inline]] inline void ChannelState::end(SlotId id, Slot& slot) noexcept {
  if (slot.loans != 0) give_back_all(id, slot);
  --outstanding(slot.operation);
  if (slot.scope != nullptr) {
    --slot.scope->outstanding;
    if (slot.operation == Operation::receive) --slot.scope->receives_outstanding;
  }
  slot.finished = true;
}

[[gnu::always_inline]] inline void ChannelState::settle(SlotId id, Slot& slot) noexcept {
  if (!slot.held)
    settle_without_handle(id, slot);
  else if (slot.scope != nullptr)
    ++slot.scope->finished;
}

[[gnu::always_inline]] inline void ChannelState::succeed(SlotId id, Slot& slot,
                                                         CompletedWork const& done) noexcept {
  end(id, slot);
  slot.success = {slot.operation, slot.operation == Operation::receive ? done.bytes : slot.bytes,
                  done.immediate};
  settle(id, slot);
}

[[gnu::cold]] void ChannelState::fail(SlotId id, Slot& slot, FailedWork const& failed) noexcept {
  end(id, slot);
  slot.failed = true;
  slot.failure = failure_of(id, slot, failed);
  break_with(slot.failure);
  settle(id, slot);
}

[[gnu::always_inline]] inline int ChannelState::take() noexcept {
  struct Visit {
    ChannelState& channel;
    [[gnu::always_inline]] void operator()(std::uint64_t id, CompletedWork const& done) const {
      if (Slot* const slot = channel.slots_.find(SlotId{id})) [[likely]]
        channel.succeed(SlotId{id}, *slot, done);
      else
        LEND_ASSERT(channel.is_abandoned());
    }
    void operator()(std::uint64_t id, FailedWork const& failed) const {
      if (Slot* const slot = channel.slots_.find(SlotId{id}))
        channel.fail(SlotId{id}, *slot, failed);
      else
        LEND_ASSERT(channel.is_abandoned());
    }
  };
  return take_completions(*raw_completions_, poll_batch, Visit{*this});
}

Result<std::uint32_t> ChannelState::poll() noexcept {
  bool const was_broken = is_broken();
  int const taken = take();
  if (taken < 0) [[unlikely]]
    return poll_error(*raw_completions_, taken);
  if (is_broken() && !was_broken && queue_pair_) {
    // Of itself SoftRoCE leaves a receive unflushed that was posted after the failure and before it
    // was seen. Source: kernel drivers/infiniband/sw/rxe/rxe_verbs.c, rxe_post_recv. What is
    // refused here is tried again by the drain.
    static_cast<void>(queue_pair_->flush());
  }
  if (taken == 0 && is_watched_ && ++empty_polls_ % empty_polls_per_look == 0) look_at_peer();
  return static_cast<std::uint32_t>(taken);
}

void ChannelState::give_back_all(SlotId id, Slot& slot) noexcept {
  LentPiece* const pieces = pieces_of(id);
  for (; slot.loans > 0; --slot.loans) {
    auto& [loan, region] = pieces[slot.loans - 1];
    end_loan(loan, region);
  }
}

bool ChannelState::pause(Waiter& waiter, Deadline deadline) noexcept {
  if (!waiter.pause(deadline)) return false;
  if (is_watched_ && waiter.just_slept()) look_at_peer();
  return true;
}

void ChannelState::look_at_peer() noexcept {
  if (is_broken() || !queue_pair_) return;  // also while flush() polls
  if (auto const reason = lost(Deadline{Deadline::Clock::now()})) flush(*reason);
}

Error ChannelState::failure_of(SlotId id, Slot const& slot, FailedWork const& failed) noexcept {
  if (is_watched_ && failed.status == WorkStatus::flushed) {
    // iWARP flushes by itself when the connection ends, before the reason arrives.
    if (!first_cause_ && queue_pair_)
      if (auto const reason = lost(within(reason_bound))) break_with(*reason);
    if (first_cause_ && *first_cause_ == Errc::peer_lost) return *first_cause_;
  }
  return Error::from_work(
      {.status = failed.status,
       .operation = slot.operation,
       .queue_pair_state = queue_pair_ ? queue_pair_->state() : QueuePairState::unknown,
       .vendor_code = failed.vendor_code,
       .queue_pair_number = endpoint.queue_pair_number.value(),
       .peer_queue_pair_number = peer.queue_pair_number.value(),
       .slot = id.index(),
       .bytes = slot.bytes,
       .port_is_down = !first_cause_ && port_is_down()});
}

std::optional<Error> ChannelState::lost(Deadline deadline) noexcept {
  auto reason = queue_pair_->lost(deadline);
  // What the kernel tells of a link that was pulled here is that the peer disconnected.
  if (reason && port_is_down())
    reason = Error{Errc::peer_lost, reason->message() +
                                        ", for this side's port is down: bring its network "
                                        "interface or link up, then make a new channel"};
  return reason;
}

bool ChannelState::port_is_down() const noexcept {
  return queue_pair_ && queue_pair_->port_is_down();
}

void ChannelState::break_with(Error const& cause) noexcept {
  bool const known = first_cause_.has_value();
  // A flushed request tells of the end, not of its reason: a reason seen later is the better one.
  bool const known_is_flush = known && first_cause_->work() != nullptr &&
                              class_of(first_cause_->work()->status) == FailureClass::flushed;
  bool const is_flush =
      cause.work() != nullptr && class_of(cause.work()->status) == FailureClass::flushed;
  if (!known || (known_is_flush && !is_flush)) first_cause_ = cause;
}

Error ChannelState::broken_error() const noexcept {
  return Error{Errc::channel_broken,
               "the channel is broken; first cause: " + first_cause_->message()};
}

void ChannelState::settle_without_handle(SlotId id, Slot& slot) noexcept {
  if (slot.scope != nullptr) ++slot.scope->unpolled;
  if (slot.failed) keep(slot.scope != nullptr ? slot.scope->failures : last_failures, slot.failure);
  release(id, slot);
}

[[gnu::always_inline]] inline Result<WorkSuccess> ChannelState::take_result(SlotId id,
                                                                            Slot& slot) noexcept {
  if (slot.scope != nullptr) --slot.scope->finished;
  if (slot.failed) [[unlikely]] {
    Error const failure = slot.failure;
    release(id, slot);
    return failure;
  }
  Result<WorkSuccess> const result{slot.success};
  release(id, slot);
  return result;
}

namespace {

[[gnu::cold]] Error scope_has_ended() noexcept {
  return Error{Errc::stale_handle, "the scope of this work has ended"};
}

}  // namespace

Result<std::optional<WorkSuccess>> ChannelState::ask(SlotId id) noexcept {
  Slot* const slot = slots_.find(id);
  if (slot == nullptr) return scope_has_ended();
  if (!slot->finished) {
    LEND_TRYV(poll());
    if (!slot->finished) return std::optional<WorkSuccess>{};
  }
  LEND_TRY(result, take_result(id, *slot));
  return std::optional<WorkSuccess>{result};
}

Result<WorkSuccess> ChannelState::wait(SlotId id, Deadline deadline) noexcept {
  Slot* const slot = slots_.find(id);
  if (slot == nullptr) return scope_has_ended();
  if (!slot->finished) {
    LEND_TRYV(poll());
    if (!slot->finished) return wait_longer(id, deadline);
  }
  return take_result(id, *slot);
}

Result<WorkSuccess> ChannelState::wait_longer(SlotId id, Deadline deadline) noexcept {
  Slot& slot = slots_.tenant(id);
  Waiter waiter{wait_plan_, completions_};
  while (!slot.finished) {
    if (!pause(waiter, deadline))
      return gave_up(deadline, "the work was not over",
                     waiter.has_slept() && port_is_down()
                         ? ", for this side's port is down: bring its network interface or link "
                           "up; the work is still outstanding"
                         : "; it is still outstanding");
    LEND_TRYV(poll());
  }
  return take_result(id, slot);
}

void ChannelState::drop(SlotId id) noexcept {
  Slot* const slot = slots_.find(id);
  if (slot == nullptr) return;
  slot->held = false;
  if (!slot->finished) return;
  if (slot->scope != nullptr) --slot->scope->finished;
  settle_without_handle(id, *slot);
}

}  // namespace lend
