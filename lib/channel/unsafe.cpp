// SPDX-License-Identifier: MIT OR Apache-2.0
#include <channel/posting.hpp>
#include <lend/channel/unsafe.hpp>

namespace lend {

namespace {

template <class Work>
[[gnu::always_inline]] inline SlotId try_once(ChannelState& state, Work const& work,
                                              Error& why) noexcept {
  return state.post<ChannelState::Lending::unsafe_without>(work, nullptr, SourceLine{}, why);
}

template <class Work>
[[gnu::cold, gnu::noinline]] SlotId try_again(ChannelState& state, Work const& work,
                                              Error& why) noexcept {
  if (auto polled = state.poll(); !polled.has_value()) {
    why = state.of_this_connection(polled.error());
    return {};
  }
  return try_once(state, work, why);
}

template <class Work>
[[gnu::always_inline]] inline Result<PendingWork> post(Channel& channel,
                                                       Work const& work) noexcept {
  ChannelState& state = unsafe_state(channel);
  ChannelState::Use const use{state};
  Error why;
  SlotId id = try_once(state, work, why);
  if (!id.is_valid()) [[unlikely]] {
    if (why == Errc::queue_full) id = try_again(state, work, why);
    if (!id.is_valid()) return why;
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
