// SPDX-License-Identifier: MIT OR Apache-2.0
// Asking a handle: its channel, if that lives, else what the handle has kept. The thread of the
// channel.
#include <channel/completing.hpp>
#include <lend/channel/pending_work.hpp>

#include <memory>

namespace lend {

namespace {

using Answer = ChannelState::Answer;

[[gnu::cold]] Error nobody_to_ask(ChannelReference channel) noexcept {
  // Every handle was made with an anchor; a move takes it along.
  if (channel.anchor == nullptr)
    return Error{Errc::stale_handle, "this handle was moved from: ask the one it was moved to"};
  return Error{Errc::stale_handle, "the channel of this work is gone"};
}

}  // namespace

void PendingWork::drop() noexcept {
  ChannelState* const state = living(channel_);
  if (state == nullptr) return;
  ChannelState::Use const use{*state};
  state->drop(SlotId{id_});
}

void PendingWork::keep_failure(Error failure) noexcept {
  seen_ = Seen::failure;
  std::construct_at(&failure_, std::move(failure));
}

Result<std::optional<WorkSuccess>> PendingWork::poll() noexcept {
  if (seen_ == Seen::nothing) {
    ChannelState* const state = living(channel_);
    if (state == nullptr) return nobody_to_ask(channel_);
    ChannelState::Use const use{*state};
    WorkSuccess success;
    switch (state->ask(SlotId{id_}, success)) {
      case Answer::succeeded: keep_success(success); break;
      case Answer::failed: keep_failure(state->take_reason()); break;
      case Answer::not_over: return std::optional<WorkSuccess>{};
      case Answer::unknown: return state->take_reason();
    }
  }
  if (seen_ == Seen::failure) return failure_;
  return std::optional<WorkSuccess>{success_};
}

Result<WorkSuccess> PendingWork::wait(Deadline deadline) noexcept {
  if (seen_ == Seen::nothing) [[likely]] {
    ChannelState* const state = living(channel_);
    if (state == nullptr) return nobody_to_ask(channel_);
    ChannelState::Use const use{*state};
    WorkSuccess success;
    auto const answer = state->wait(SlotId{id_}, deadline, success);
    if (answer == Answer::succeeded) [[likely]] {
      keep_success(success);
      return success;
    }
    if (answer == Answer::unknown) return state->take_reason();
    keep_failure(state->take_reason());
  }
  if (seen_ == Seen::failure) return failure_;
  return success_;
}

}  // namespace lend
