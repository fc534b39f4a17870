// SPDX-License-Identifier: MIT OR Apache-2.0
// Handles: the result from the channel, if that exists, otherwise the kept one. The thread of the
// channel.
#include <channel/waiting.hpp>
#include <lend/channel/pending_work.hpp>

#include <memory>

namespace lend {

using channel::ChannelState;
using channel::WorkAnswer;

void PendingWork::drop() noexcept {
  ChannelState* const state = channel::living(channel_);
  if (state == nullptr) return;
  ChannelState::Use const use{*state};
  state->in_flight.drop_handle(base::SlotId{id_});
}

void PendingWork::keep_failure(Error failure) noexcept {
  seen_ = Seen::failure;
  std::construct_at(&failure_, std::move(failure));
}

[[gnu::cold, gnu::noinline]] Error PendingWork::nobody_to_ask() noexcept {
  // Every handle was made with an anchor; a move takes it along.
  if (channel_.anchor == nullptr)
    return Error{Errc::stale_handle, "this handle was moved from: use the one it was moved to"};
  keep_failure(Error{Errc::stale_handle, "the channel of this work is gone"});
  return failure_;
}

Result<std::optional<WorkSuccess>> PendingWork::poll() noexcept {
  if (seen_ == Seen::nothing) {
    ChannelState* const state = channel::living(channel_);
    if (state == nullptr) return nobody_to_ask();
    ChannelState::Use const use{*state};
    WorkSuccess success;
    switch (channel::ask_for(*state, base::SlotId{id_}, success)) {
      case WorkAnswer::succeeded: keep_success(success); break;
      case WorkAnswer::failed: keep_failure(state->failures.take_last_error()); break;
      case WorkAnswer::not_over: return std::optional<WorkSuccess>{};
      case WorkAnswer::unknown: return state->failures.take_last_error();
    }
  }
  if (seen_ == Seen::failure) return failure_;
  return std::optional<WorkSuccess>{success_};
}

Result<WorkSuccess> PendingWork::wait(Deadline deadline) noexcept {
  if (seen_ == Seen::nothing) [[likely]] {
    ChannelState* const state = channel::living(channel_);
    if (state == nullptr) return nobody_to_ask();
    ChannelState::Use const use{*state};
    auto const answer =
        channel::wait_for(*state, base::SlotId{id_}, deadline,
                          [this](WorkSuccess const& success) { keep_success(success); });
    if (answer == WorkAnswer::succeeded) [[likely]]
      return success_;
    if (answer == WorkAnswer::unknown) return state->failures.take_last_error();
    keep_failure(state->failures.take_last_error());
  }
  if (seen_ == Seen::failure) return failure_;
  return success_;
}

}  // namespace lend
