// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel breaks, and its requests fail. The thread of the channel.
#pragma once

#include <channel/parts/slot.hpp>
#include <lend/base/error.hpp>
#include <lend/base/work_failure.hpp>
#include <lend/verbs/completion.hpp>

#include <cstdint>

namespace lend::channel {

class ChannelState;

/// Breaks the channel with a cause from the device, the peer or the watch. Ending returns the work.
void break_with(ChannelState& channel, Error const& cause) noexcept;
/// Breaks the channel with the reason why lend aborts the work.
void break_for_own(ChannelState& channel, Error const& reason) noexcept;

/// The request's completion failed, or will not come.
void fail(ChannelState& channel, SlotId id, Slot& slot, FailedWork const& failed) noexcept;
/// The same of a receive of the channel's pool, which had room for `bytes`.
void fail_pooled(ChannelState& channel, FailedWork const& failed, std::uint64_t bytes) noexcept;

/// A slot's request, for an error.
[[nodiscard]] WorkFailure subject_of(ChannelState const& channel, SlotId id,
                                     Slot const& slot) noexcept;
/// `error`, described for a slot's request.
[[nodiscard]] Error of_this_work(ChannelState const& channel, Error const& error, SlotId id,
                                 Slot const& slot) noexcept;
/// The queue could not be polled, which ibv_poll_cq(3) answered by `result`.
[[nodiscard]] Error poll_failure(ChannelState const& channel, int result) noexcept;

}  // namespace lend::channel
