// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel's next life. The thread of the channel.
#include <channel/channel_state.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>

#include <new>
#include <utility>

namespace lend {

namespace {

// Short of memory without the words: the channel is broken all the same.
Error prepared_again() noexcept try {
  return {Errc::channel_broken, "the channel was prepared again"};
} catch (std::bad_alloc const&) {
  return Errc::channel_broken;
}

}  // namespace

Result<PreparedChannel> ChannelState::prepare_again() {
  Use const use{*this};
  Error const reason = prepared_again();
  if (outstanding_[0] + outstanding_[1] > 0)
    flush(of_this_connection(reason));
  else
    break_for_own(reason);  // should the next life not begin
  // Before the next one is made, for there may be room for one only.
  queue_pair_.reset();
  return prepare_channel(domain_, options_);
}

Result<PreparedChannel> Channel::prepare_again() && {
  if (state_ == nullptr)
    return Error{Errc::stale_handle, "this channel was moved from; prepare the one it moved to"};
  LEND_TRY(prepared, state_->prepare_again());
  for (auto const& [own, peer] : state_->past) prepared.follow(own, peer);
  prepared.follow(state_->endpoint, state_->peer);
  state_.reset();  // now its handles and scopes are stale
  return prepared;
}

}  // namespace lend
