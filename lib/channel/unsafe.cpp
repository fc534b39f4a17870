// SPDX-License-Identifier: MIT OR Apache-2.0
#include <channel/posting.hpp>
#include <lend/channel/unsafe.hpp>

namespace lend {

namespace {

template <class Work>
[[gnu::always_inline]] inline Result<SlotId> try_once(ChannelState& state,
                                                      Work const& work) noexcept {
  return state.post<ChannelState::Lending::unsafe_without>(work, nullptr, SourceLine{});
}

template <class Work>
[[gnu::cold, gnu::noinline]] Result<SlotId> try_again(ChannelState& state,
                                                      Work const& work) noexcept {
  LEND_TRYV(state.poll());
  return try_once(state, work);
}

template <class Work>
[[gnu::always_inline]] inline Result<PendingWork> post(Channel& channel,
                                                       Work const& work) noexcept {
  ChannelState& state = unsafe_state(channel);
  auto posted = try_once(state, work);
  if (!posted.has_value()) [[unlikely]] {
    if (posted.assume_error() == Errc::queue_full) posted = try_again(state, work);
    if (!posted.has_value()) return std::move(posted).assume_error();
  }
  return state.handle_for(posted.assume_value());
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
