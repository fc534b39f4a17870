// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks who knows of losses, and tells the source of losses. The thread of the channel.
#include <channel/state/breaking.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/set_state.hpp>

namespace lend::channel {

namespace {

// A source of losses polls all queues of the set.
constexpr std::chrono::milliseconds between_looks_for_losses{1};

}  // namespace

void LossDetection::look_at_peer() noexcept {
  act_on(channel_.watch.look());
  ask_source();
}

void LossDetection::look_between(Waiter& waiter) noexcept {
  act_on(channel_.watch.look_between(waiter));
  if (!waiter.is_spinning()) look_for_losses(waiter);
}

void LossDetection::look_for_losses(Waiter const& waiter) noexcept {
  if (waiter.just_slept() || next_question_.has_passed()) ask_source();
}

void LossDetection::look_now() noexcept {
  if (channel_.watch.is_time_to_look()) act_on(channel_.watch.look());
  // Not every device brings back all of it of itself.
  bool const has_work = channel_.in_flight.room.outstanding() > 0;
  if (channel_.is_broken() && has_work) Ending{channel_}.hurry_abort();
  if (!channel_.watch.is_timed() && !(channel_.is_broken() && has_work))
    channel_.as_looked_after.leave();
}

void LossDetection::hear_manager() noexcept {
  act_on(channel_.watch.ask_manager());
  // Whatever else is said of a connection that has ended would wake the set for nothing.
  if (channel_.is_broken() && !channel_.failures.is_unexplained()) hear_no_more();
}

void LossDetection::hear_no_more() noexcept {
  if (!channel_.watch.is_heard()) return;
  channel_.watch.hear_no_more();
  channel_.progress.set()->hear_no_more(channel_.connection.raw().keeper->descriptor());
}

Deadline LossDetection::look_again() const noexcept {
  Deadline const look = channel_.watch.next_look();
  bool const is_aborting =
      channel_.is_broken() && channel_.abort_until && channel_.in_flight.room.outstanding() > 0;
  return is_aborting ? sooner(look, *channel_.abort_until) : look;
}

void LossDetection::act_on(Finding const& found) noexcept {
  if (!found) return;
  break_with(channel_, *found);
  Ending{channel_}.start_abort();  // waits and drains finish it
}

void LossDetection::look_at_events() noexcept {
  channel_.connection.read_events();
  static_cast<void>(break_if_reported());
}

bool LossDetection::break_if_reported() noexcept {
  if (!channel_.failures.lacks_cause()) return false;
  auto const reported = channel_.connection.reported();
  act_on(reported);
  return reported.has_value();
}

bool LossDetection::learn_reason(Deadline deadline) noexcept {
  if (!learn_reason_of_flush(deadline)) return false;
  if (channel_.is_broken()) tell_of_end(*channel_.failures.first_cause());
  return true;
}

bool LossDetection::learn_reason_of_flush(Deadline deadline) noexcept {
  if (channel_.failures.is_unexplained()) look_at_events();
  if (!channel_.watch.may_be_explained()) return true;
  auto const reason = channel_.watch.explanation(deadline);
  if (reason) break_with(channel_, *reason);
  return reason || channel_.watch.has_waited_for_explanation();
}

void LossDetection::ask(LossSource& source) noexcept {
  source_ = &source;
  channel_.watch.look_beside();
}

void LossDetection::ask_source() noexcept {
  if (source_ == nullptr || channel_.is_broken()) return;
  next_question_ = within(between_looks_for_losses);
  ChannelUse::Pause const pause{channel_.progress.user()};
  source_->look_for_loss(channel_.tag());
}

void LossDetection::tell_of_end(Error const& why) noexcept {
  if (source_ == nullptr || channel_.failures.has_loss()) return;
  Error const kept = why;  // the source may replace the cause
  if (!channel_.is_broken()) break_for_own(channel_, kept);
  ChannelUse::Pause const pause{channel_.progress.user()};
  source_->note_end(channel_.tag(), kept);
}

void LossDetection::end_by_loss(Error const& loss, bool is_of_peer, bool is_iwarp) noexcept {
  ChannelState::Use const use{channel_};
  bool const was_broken = channel_.is_broken();
  channel_.in_flight.room.close();
  if (!was_broken) channel_.in_flight.observed.note_break();
  channel_.failures.add_loss(loss, is_of_peer, is_iwarp);
  channel_.progress.note_news(channel_);
  channel_.progress.look_after(channel_);  // until its work is back
  if (!was_broken) Ending{channel_}.start_abort();
}

}  // namespace lend::channel
