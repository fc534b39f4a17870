// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts like a scope, without loans and without waiting. The thread of the channel.
#include <channel/posting.hpp>
#include <lend/channel/unsafe.hpp>

namespace lend {

using channel::ChannelState;

namespace {

template <class Work>
[[gnu::always_inline]] inline Result<PendingWork> post(Channel& channel,
                                                       Work const& work) noexcept {
  constexpr auto lending = channel::Lending::unsafe_without;
  ChannelState& state = ChannelState::of(channel);
  ChannelState::Use const use{state};
  base::SlotId id = channel::try_to_post<lending>(state, work, state.unscoped, SourceLine{});
  if (!id.is_valid()) [[unlikely]] {
    id = channel::post_after_poll<lending>(state, work, state.unscoped, SourceLine{});
    if (!id.is_valid()) return channel::take_error_of(state, work, SourceLine{});
  }
  return state.handle_for(id);
}

}  // namespace

Result<PendingWork> unsafe_post_send(Channel& channel, Send const& work) noexcept {
  return post(channel, work);
}
Result<PendingWork> unsafe_post_receive(Channel& channel, Receive const& work) noexcept {
  return post(channel, work);
}
Result<PendingWork> unsafe_post_write(Channel& channel, Write const& work) noexcept {
  return post(channel, work);
}
Result<PendingWork> unsafe_post_read(Channel& channel, Read const& work) noexcept {
  return post(channel, work);
}
Result<PendingWork> unsafe_post_atomic(Channel& channel, Atomic const& work) noexcept {
  return post(channel, work);
}

}  // namespace lend
