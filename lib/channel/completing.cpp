// SPDX-License-Identifier: MIT OR Apache-2.0
// From a completion to whoever asks for it: the bytes come back, then the slot is settled.
#include <base/giving_up.hpp>
#include <channel/channel_state.hpp>

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

Result<std::uint32_t> ChannelState::poll() noexcept {
  LEND_TRY(seen, completions_.poll(batch_));
  bool const was_broken = is_broken();
  for (Completion const& completion : seen) {
    SlotId const id{completion.id};
    Slot* const slot = slots_.find(id);
    if (slot == nullptr) {
      // Only abandon() settles work whose completion was not seen.
      LEND_ASSERT(!queue_pair_.has_value());
      continue;
    }
    complete(id, *slot, completion);
  }
  if (is_broken() && !was_broken && queue_pair_) {
    // Of itself SoftRoCE leaves a receive unflushed that was posted after the failure and before it
    // was seen. Source: kernel drivers/infiniband/sw/rxe/rxe_verbs.c, rxe_post_recv. What is
    // refused here is tried again by the drain.
    static_cast<void>(queue_pair_->flush());
  }
  if (seen.empty() && is_watched_ && ++empty_polls_ % empty_polls_per_look == 0) look_at_peer();
  return static_cast<std::uint32_t>(seen.size());
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

void ChannelState::complete(SlotId id, Slot& slot, Completion const& completion) noexcept {
  give_back_all(id, slot);
  --outstanding(slot.operation);
  if (slot.scope != nullptr) {
    --slot.scope->outstanding;
    if (slot.operation == Operation::receive) --slot.scope->receives_outstanding;
  }

  slot.finished = true;
  if (CompletedWork const* const done = completion.success()) {
    slot.failed = false;
    slot.success = {slot.operation, slot.operation == Operation::receive ? done->bytes : slot.bytes,
                    done->immediate};
  } else {
    slot.failed = true;
    slot.failure = failure_of(id, slot, *completion.failure());
    break_with(slot.failure);
  }

  if (!slot.held) {
    settle_without_handle(id, slot);
  } else if (slot.scope != nullptr) {
    ++slot.scope->finished;
  }
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

void ChannelState::release(SlotId id, Slot& slot) noexcept {
  slot.scope = nullptr;
  slot.held = false;
  slot.finished = false;
  if (slot.failed) {
    slot.failed = false;
    slot.failure = Error{};
  }
  slots_.free(id);
}

Result<std::optional<WorkSuccess>> ChannelState::ask(SlotId id) noexcept {
  Slot* slot = slots_.find(id);
  if (slot == nullptr) return Error{Errc::stale_handle, "the scope of this work has ended"};
  if (!slot->finished) {
    LEND_TRYV(poll());
    if (!slot->finished) return std::optional<WorkSuccess>{};
  }
  if (slot->scope != nullptr) --slot->scope->finished;
  Result<std::optional<WorkSuccess>> result{std::optional<WorkSuccess>{slot->success}};
  if (slot->failed) result = slot->failure;
  release(id, *slot);
  return result;
}

Result<WorkSuccess> ChannelState::wait(SlotId id, Deadline deadline) noexcept {
  Waiter waiter{wait_plan_, completions_};
  for (;;) {
    LEND_TRY(result, ask(id));
    if (result) return *result;
    if (!pause(waiter, deadline))
      return gave_up(deadline, "the work was not over",
                     waiter.has_slept() && port_is_down()
                         ? ", for this side's port is down: bring its network interface or link "
                           "up; the work is still outstanding"
                         : "; it is still outstanding");
  }
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
