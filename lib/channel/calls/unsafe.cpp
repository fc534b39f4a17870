// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts like a scope, without loans and without waiting. The thread of the channel.
#include <channel/work/posting_again.hpp>
#include <lend/channel/unsafe.hpp>

namespace lend::channel {

namespace {

constexpr auto unlent = Lending::unsafe_without;

template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] PostedWork post_unsafe_after(SlotId tried,
                                                                     ChannelState& channel,
                                                                     Work const& work) noexcept {
  SlotId const id = post_after<unlent, Room::is_there_now>(tried, channel, work, channel.unscoped,
                                                           Deadline::never(), "", 0);
  return {id.value, &channel.reference()};
}

/// UnsafePosts::post() of what is not so simple; see post_otherwise() of a scope.
template <class Work, class... Peer>
[[gnu::noinline]] PostedWork post_otherwise(Channel& channel, verbs::RegionState* region,
                                            std::size_t offset, std::size_t length,
                                            Peer const&... peer) noexcept {
  verbs::Plain<Work> const plain{{region, {offset, length}}, &peer...};
  return UnsafePosts<Work, Peer...>::post_any(channel, plain.work());
}

}  // namespace

template <class Work, class... Peer>
PostedWork UnsafePosts<Work, Peer...>::post(Channel& channel, verbs::RegionState* region,
                                            std::size_t offset, std::size_t length,
                                            Peer const&... peer) noexcept {
  ChannelState& state = ChannelState::of(channel);
  if (state.is_free()) [[likely]] {
    ChannelState::Use const use{state, ChannelState::Use::Free{}};
    auto& form = form_of<Work>(state);
    verbs::Plain<Work> const plain{{region, {offset, length}}, &peer...};
    Prepared prepared;
    if (prepare<unlent>(prepared, form, state, plain, nullptr, 0)) [[likely]]
      return post_prepared<unlent>(
          form, state, state.unscoped, plain.peer, prepared,
          [&](Slot& slot, SlotId id) LEND_INLINED {
            open(form, state, state.unscoped, slot, id, plain.peer);
            return PostedWork{id.value, &state.reference()};
          },
          [&](Work const& work, SourceLine)
              LEND_INLINED { return post_unsafe_after({}, state, work); });
  }
  return post_otherwise<Work>(channel, region, offset, length, peer...);
}

template <class Work, class... Peer>
PostedWork UnsafePosts<Work, Peer...>::post_any(Channel& channel, Work const& work) noexcept {
  ChannelState& state = ChannelState::of(channel);
  ChannelState::Use const use{state};
  return post_unsafe_after(post_general<unlent>(state, work, state.unscoped, "", 0), state, work);
}

template struct UnsafePosts<Send>;
template struct UnsafePosts<Receive>;
template struct UnsafePosts<Write, RemoteSlice>;
template struct UnsafePosts<Read, RemoteSlice>;
template struct UnsafePosts<Atomic, AtomicChange>;

}  // namespace lend::channel
