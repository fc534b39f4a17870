// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts like a scope, without loans and without waiting. The thread of the channel.
#include <channel/work/post.hpp>
#include <lend/channel/unsafe.hpp>

namespace lend::channel {

namespace {

constexpr auto unlent = Lending::unsafe_without;
constexpr auto once = Room::is_polled_for_once;

}  // namespace

template <class Work>
PostedWork UnsafePosts<Work>::post(Channel& channel, verbs::RegionState* region, std::size_t offset,
                                   std::size_t length, verbs::PeerPart<Work> peer) noexcept {
  ChannelState& state = ChannelState::of(channel);
  verbs::Plain<Work> const plain{{region, {offset, length}}, peer};
  if (!state.is_free()) [[unlikely]]
    return post_any(channel, plain.work());
  ChannelState::Use const use{state, ChannelState::Use::Free{}};
  SlotId const id =
      channel::post<unlent, once>(state, plain, state.unscoped, Deadline::never(), "", 0);
  return {id.value, &state.reference()};
}

template <class Work>
PostedWork UnsafePosts<Work>::post_any(Channel& channel, Work const& work) noexcept {
  ChannelState& state = ChannelState::of(channel);
  ChannelState::Use const use{state};
  SlotId const id = channel::post<unlent, once>(state, work, state.unscoped, Deadline::never(), {});
  return {id.value, &state.reference()};
}

template struct UnsafePosts<Send>;
template struct UnsafePosts<Receive>;
template struct UnsafePosts<Write>;
template struct UnsafePosts<Read>;
template struct UnsafePosts<Atomic>;

}  // namespace lend::channel
