// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel and its source of losses: which of them learns what. The thread of the channel.
#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>

namespace lend::channel {

namespace {

// A source of losses polls all queues of the set.
constexpr std::chrono::milliseconds between_looks_for_losses{1};

}  // namespace

void ChannelState::look_at_peer() noexcept {
  act_on(watch.look());
  ask_losses();
}

void ChannelState::look_between(Waiter& waiter) noexcept {
  act_on(watch.look_between(waiter));
  if (!waiter.is_spinning()) look_for_losses(waiter);
}

void ChannelState::look_for_losses(Waiter const& waiter) noexcept {
  if (waiter.just_slept() || next_loss_look_.has_passed()) ask_losses();
}

void ChannelState::ask_losses() noexcept {
  if (losses == nullptr || is_broken()) return;
  next_loss_look_ = within(between_looks_for_losses);
  ChannelUse::Pause const pause{user_};
  losses->look_for_loss(tag());
}

void ChannelState::tell_of_end(Error const& why) noexcept {
  if (losses == nullptr || failures.has_loss()) return;
  Error const kept = why;  // the source may replace the cause
  if (!is_broken()) break_for_own(kept);
  ChannelUse::Pause const pause{user_};
  losses->note_end(tag(), kept);
}

void ChannelState::end_by_loss(Error const& loss, bool is_of_peer, bool is_iwarp) noexcept {
  Use const use{*this};
  bool const was_broken = is_broken();
  in_flight.close();
  if (!was_broken) in_flight.observed.note_break();
  failures.add_loss(loss, is_of_peer, is_iwarp);
  progress.note_news(*this);
  progress.look_after(*this);  // until its work is back
  if (!was_broken) Ending{*this}.start_abort();
}

}  // namespace lend::channel
