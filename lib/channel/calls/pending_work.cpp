// SPDX-License-Identifier: MIT OR Apache-2.0
// Handles: the result from the channel, if that exists, otherwise the kept one. The thread of the
// channel.
#include <channel/work/waiting.hpp>
#include <lend/channel/pending_work.hpp>

namespace lend::channel {

namespace {

/// Of a handle whose channel is gone; one that was moved from has none.
constexpr WorkAnswer of_no_channel{WorkAnswer::State::failed};

// A call of its own: to drop a handle of outstanding work, as batches do, then takes no frame.
[[gnu::noinline]] void drop_general(ChannelState& channel, SlotId id) noexcept {
  ChannelState::Use const use{channel};
  if (!channel.in_flight.slots.drop_handle(id)) channel.in_flight.slots.drop_finished(id);
}

}  // namespace

WorkAnswer HandleCalls::wait(ChannelReference channel, std::uint64_t id) noexcept {
  ChannelState* const state = living(channel);
  if (state == nullptr) [[unlikely]]
    return of_no_channel;
  ChannelState::Use const use{*state};
  return wait_for(*state, SlotId{id}, Deadline::never());
}

WorkAnswer HandleCalls::wait(ChannelReference channel, std::uint64_t id,
                             Deadline deadline) noexcept {
  ChannelState* const state = living(channel);
  if (state == nullptr) [[unlikely]]
    return of_no_channel;
  ChannelState::Use const use{*state};
  return wait_for(*state, SlotId{id}, deadline);
}

WorkAnswer HandleCalls::poll(ChannelReference channel, std::uint64_t id) noexcept {
  ChannelState* const state = living(channel);
  if (state == nullptr) return of_no_channel;
  ChannelState::Use const use{*state};
  return ask_for(*state, SlotId{id});
}

Error HandleCalls::error_of(ChannelReference channel) noexcept {
  if (ChannelState* const state = living(channel)) {
    ChannelState::Use const use{*state};
    return state->failures.take_last_error();
  }
  // Every handle was made with an anchor; a move takes it along.
  if (channel.anchor == nullptr)
    return Error{Errc::stale_handle, "this handle was moved from: use the one it was moved to"};
  return Error{Errc::stale_handle, "the channel of this work is gone"};
}

void HandleCalls::drop(ChannelReference channel, std::uint64_t id) noexcept {
  ChannelState* const state = living(channel);
  if (state == nullptr) return;
  if (!state->is_free()) [[unlikely]]
    return drop_general(*state, SlotId{id});
  bool is_dropped = false;
  {
    ChannelState::Use const use{*state, ChannelState::Use::Free{}};
    is_dropped = state->in_flight.slots.drop_handle(SlotId{id});
  }
  if (!is_dropped) drop_general(*state, SlotId{id});
}

}  // namespace lend::channel
