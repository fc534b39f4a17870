// SPDX-License-Identifier: MIT OR Apache-2.0
// What failed, what broke the channel, and what is told of it. Nothing here runs while work
// succeeds. The thread of the channel.
#include <base/giving_up.hpp>
#include <channel/channel_state.hpp>
#include <verbs/polling.hpp>

#include <new>
#include <string>
#include <utility>

namespace lend {

namespace {

// How long the reason for a flush may be on its way through the kernel.
constexpr std::chrono::milliseconds reason_bound{200};

std::string address_of(Endpoint const& end) {
  if (end.has_gid()) return text_of(end.gid);
  return end.lid != 0 ? "LID " + std::to_string(end.lid) : std::string{};
}

}  // namespace

WorkFailure ChannelState::story_of_connection(Errc code) const noexcept {
  WorkFailure story{.queue_pair_number = endpoint.queue_pair_number.value(),
                    .peer_queue_pair_number = peer.queue_pair_number.value(),
                    .slot = WorkFailure::no_slot};
  try {
    story.peer_address = address_of(peer);
  } catch (std::bad_alloc const&) {  // told without
  }
  // Of other errors, asking the device would cost more than the call did.
  if (code == Errc::system_failed && queue_pair_) story.queue_pair_state = queue_pair_->state();
  return story;
}

WorkFailure ChannelState::story_of(SlotId id, Slot const& slot) noexcept {
  WorkFailure story = story_of_connection();
  story.operation = slot.work.operation;
  story.slot = id.index();
  story.bytes = slot.work.bytes;
  // Every piece was lent by the same call. Work without loans does not say where it was posted.
  if (slot.loans > 0 && slot.pieces->loan.on_loan()) story.posted_at = slot.pieces->loan.where();
  return story;
}

Error ChannelState::of_this_connection(Error const& error) const noexcept {
  return error.about(story_of_connection(error.code()));
}

[[gnu::cold]] Error ChannelState::poll_failure(int result) const noexcept {
  return poll_error(
      completions_, result,
      "The bytes come back by a flush: at the end of the scope, or of a blocking call.");
}

[[gnu::cold]] Error ChannelState::of_this_work(Error const& error, SlotId id,
                                               Slot const& slot) noexcept {
  WorkFailure story = story_of(id, slot);
  if (queue_pair_) story.queue_pair_state = queue_pair_->state();
  return error.about(story);
}

Error ChannelState::timed_out(SlotId id, Deadline deadline, Waiter const& waiter) noexcept {
  WorkFailure story = story_of(id, *slots_.find(id));
  bool port_down = false;
  if (waiter.has_slept()) {  // else asking the device would cost more than the wait did
    if (queue_pair_) story.queue_pair_state = queue_pair_->state();
    port_down = port_is_down();
  }
  return gave_up(deadline, "the work was not over",
                 port_down ? ", for this side's port is down: bring its network interface or link "
                             "up; the work is still outstanding"
                           : "; it is still outstanding")
      .about(story);
}

Error ChannelState::flushed_at_deadline(SlotId id, Deadline deadline) noexcept {
  WorkFailure story = story_of(id, *slots_.find(id));
  if (queue_pair_) story.queue_pair_state = queue_pair_->state();
  return gave_up(deadline, "the work was not over",
                 port_is_down()
                     ? ", for this side's port is down: bring its network interface or link up; it "
                       "was flushed to get its bytes back, which broke the channel"
                     : "; it was flushed to get its bytes back, which broke the channel")
      .about(story);
}

Error ChannelState::failure_of(SlotId id, Slot const& slot, FailedWork const& failed) noexcept {
  bool const is_flush = failed.status == WorkStatus::flushed;
  WorkFailure story = story_of(id, slot);
  if (kept_) return kept_->about(story).with_cause(*first_cause_);
  if (queue_pair_) story.queue_pair_state = queue_pair_->state();
  if (is_flush && first_cause_ && *first_cause_ == Errc::peer_lost)
    return first_cause_->about(story);
  story.status = failed.status;
  story.vendor_code = failed.vendor_code;
  // Neither a flush nor lend's reason for one is the cause of what has failed by itself.
  bool const is_cause = first_cause_ && (is_flush || !(cause_is_own_ || first_cause_->is_flush()));
  story.port_is_down = !is_cause && port_is_down();
  Error const failure = Error::from_work(story);
  if (!is_cause) return failure;
  return failure.with_cause(*first_cause_);
}

std::optional<Error> ChannelState::lost(Deadline deadline) noexcept {
  auto reason = queue_pair_->lost(deadline);
  // What the kernel tells of a link that was pulled here is that the peer disconnected.
  if (reason && port_is_down())
    reason = Error{Errc::peer_lost, reason->message() +
                                        ", for this side's port is down: bring its network "
                                        "interface or link up, then prepare_again()"};
  return reason;
}

bool ChannelState::learn_reason(Deadline deadline) noexcept {
  // iWARP flushes by itself when the connection ends, before the reason arrives.
  if (!is_watched_ || !queue_pair_ || !is_broken() || !first_cause_->is_flush()) return true;
  if (!reason_until_) reason_until_ = within(reason_bound);
  auto const reason = lost(sooner(deadline, *reason_until_));
  if (reason) break_with(*reason);
  return reason || reason_until_->has_passed();
}

Error ChannelState::told(Error const& failure) const noexcept {
  bool const is_open =
      failure.is_flush() && (failure.cause() == nullptr || failure.cause()->is_flush());
  if (!is_open || !first_cause_ || *first_cause_ != Errc::peer_lost) return failure;
  WorkFailure story = *failure.work();
  story.status = WorkStatus::success;  // not what failed
  return first_cause_->about(story);
}

bool ChannelState::port_is_down() const noexcept {
  return queue_pair_ && queue_pair_->port_is_down();
}

void ChannelState::break_with(Error const& cause) noexcept {
  room_[0] = room_[1] = 0;
  if (!first_cause_) {
    first_cause_ = cause;
  } else if (!cause.is_flush() && (cause_is_own_ || first_cause_->is_flush())) {
    // A flushed request tells of the end, not of its reason, and lend's own reason for a flush is
    // mostly how long it took: what is seen later and is neither is the better one.
    cause.count_flushed(first_cause_->flushed_along() + (first_cause_->is_flush() ? 1 : 0));
    first_cause_ = cause;
    cause_is_own_ = false;
  }
}

void ChannelState::break_for_own(Error const& reason) noexcept {
  if (first_cause_) return;
  break_with(reason);
  cause_is_own_ = true;
}

Error ChannelState::broken_error() const noexcept {
  return Error{Errc::channel_broken,
               "the channel is broken; first cause: " + first_cause_->message()}
      .with_cause(*first_cause_);
}

}  // namespace lend
