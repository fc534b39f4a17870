// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel in the program's own event loop. The thread of the channel.
#include <channel/state/channel_state.hpp>
#include <lend/channel/channel.hpp>

namespace lend {

using channel::ChannelState;

namespace {

Result<void> check_alone(ChannelState const& state) noexcept {
  if (state.progress.set() == nullptr) return success();
  return Error{Errc::invalid_argument,
               "this channel belongs to a WaitSet, which says for all its channels what has news, "
               "and has their descriptor: ask the set"};
}

}  // namespace

Result<bool> Channel::poll() noexcept {
  ChannelState& state = ChannelState::of(*this);
  LEND_TRYV(check_alone(state));
  ChannelState::Use const use{state};
  return state.poll_for_news();
}

Result<bool> Channel::arm() noexcept {
  LEND_TRYV(without_value(descriptor()));
  ChannelState& state = ChannelState::of(*this);
  ChannelState::Use const use{state};
  if (state.news.has_any()) return false;
  state.losses.look_at_events();
  state.progress.take_events();
  if (!state.progress.arm())
    return Error{Errc::system_failed,
                 "the device refuses to signal the next completion: poll(), and sleep for a short "
                 "time only"};
  // What came before raises no event.
  LEND_TRY(count, state.poll());
  return count == 0 && !state.news.has_any();
}

Result<int> Channel::descriptor() const noexcept {
  ChannelState const& state = ChannelState::of(*this);
  LEND_TRYV(check_alone(state));
  int const descriptor = state.progress.queue().descriptor();
  if (descriptor < 0)
    return Error{Errc::unsupported,
                 "this channel has no descriptor, because it was built with Wait::spin, or with "
                 "Wait::adaptive while half of the process's descriptors were used: build it with "
                 "Wait::event"};
  return descriptor;
}

Deadline Channel::look_again() const noexcept {
  ChannelState& state = ChannelState::of(*this);
  ChannelState::Use const use{state};
  return state.losses.look_again();
}

}  // namespace lend
