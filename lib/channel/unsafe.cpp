// SPDX-License-Identifier: MIT OR Apache-2.0
#include <channel/channel_state.hpp>
#include <lend/channel/unsafe.hpp>

namespace lend {

namespace {

template <class Work>
Result<PendingWork> post(Channel& channel, Work const& work) noexcept {
  ChannelState& state = unsafe_state(channel);
  auto posted = state.post(work, nullptr, ChannelState::Lending::unsafe_without, SourceLine{});
  if (!posted.has_value() && posted.assume_error() == Errc::queue_full) {
    LEND_TRYV(state.poll());
    posted = state.post(work, nullptr, ChannelState::Lending::unsafe_without, SourceLine{});
  }
  if (!posted.has_value()) return std::move(posted).assume_error();
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
