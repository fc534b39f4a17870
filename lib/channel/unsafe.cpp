// SPDX-License-Identifier: MIT OR Apache-2.0
// The way of a scope's posts, without loans and without waiting. The thread of the channel.
#include <channel/posting.hpp>
#include <lend/channel/unsafe.hpp>

namespace lend {

namespace {

template <class Work>
[[gnu::always_inline]] inline bool try_once(ChannelState& state, Work const& work,
                                            SlotId& id) noexcept {
  return state.post<ChannelState::Lending::unsafe_without>(work, state.unscoped, SourceLine{}, id);
}

template <class Work>
[[gnu::cold, gnu::noinline]] bool try_again(ChannelState& state, Work const& work,
                                            SlotId& id) noexcept {
  if (auto polled = state.poll(); !polled.has_value()) {
    state.give_reason(polled.error());
    return false;
  }
  return try_once(state, work, id);
}

template <class Work>
[[gnu::always_inline]] inline Result<PendingWork> post(Channel& channel,
                                                       Work const& work) noexcept {
  ChannelState& state = ChannelState::of(channel);
  ChannelState::Use const use{state};
  SlotId id;
  if (!try_once(state, work, id)) [[unlikely]] {
    if (state.reason() != Errc::queue_full || !try_again(state, work, id))
      return state.take_reason_of_unposted(work, SourceLine{});
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

}  // namespace lend
