// SPDX-License-Identifier: MIT OR Apache-2.0
#include <channel/completing.hpp>
#include <lend/channel/pending_work.hpp>

namespace lend {

namespace {

using Answer = ChannelState::Answer;

[[gnu::cold]] Error channel_is_gone() noexcept {
  return Error{Errc::stale_handle, "the channel of this work is gone"};
}

}  // namespace

void PendingWork::drop() noexcept {
  ChannelState* const state = living(channel_);
  if (state == nullptr) return;
  ChannelState::Use const use{*state};
  state->drop(SlotId{id_});
}

Result<std::optional<WorkSuccess>> PendingWork::poll() noexcept {
  if (seen_ == Seen::nothing) {
    ChannelState* const state = living(channel_);
    if (state == nullptr) return channel_is_gone();
    ChannelState::Use const use{*state};
    switch (state->ask(SlotId{id_}, success_, failure_)) {
      case Answer::succeeded: seen_ = Seen::success; break;
      case Answer::failed: seen_ = Seen::failure; break;
      case Answer::not_over: return std::optional<WorkSuccess>{};
      case Answer::unknown: return std::exchange(failure_, {});
    }
  }
  if (seen_ == Seen::failure) return failure_;
  return std::optional<WorkSuccess>{success_};
}

Result<WorkSuccess> PendingWork::wait(Deadline deadline) noexcept {
  if (seen_ == Seen::nothing) {
    ChannelState* const state = living(channel_);
    if (state == nullptr) return channel_is_gone();
    ChannelState::Use const use{*state};
    auto const answer = state->wait(SlotId{id_}, deadline, success_, failure_);
    if (answer == Answer::unknown) return std::exchange(failure_, {});
    seen_ = answer == Answer::succeeded ? Seen::success : Seen::failure;
  }
  if (seen_ == Seen::failure) return failure_;
  return success_;
}

}  // namespace lend
