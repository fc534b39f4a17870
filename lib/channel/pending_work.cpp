// SPDX-License-Identifier: MIT OR Apache-2.0
#include <base/giving_up.hpp>
#include <channel/channel_state.hpp>
#include <lend/channel/pending_work.hpp>

namespace lend {

namespace {

[[gnu::cold]] Error channel_is_gone() noexcept {
  return Error{Errc::stale_handle, "the channel of this work is gone"};
}

// Of what these errors are about, the work goes on.
bool is_still_outstanding(Error const& error) noexcept {
  return error == Errc::system_failed || is_given_up(error);
}

}  // namespace

void PendingWork::drop() noexcept {
  if (ChannelState* const state = living(channel_)) state->drop(SlotId{id_});
}

Result<std::optional<WorkSuccess>> PendingWork::poll() noexcept {
  if (seen_ == Seen::nothing) {
    ChannelState* const state = living(channel_);
    if (state == nullptr) return channel_is_gone();
    auto answer = state->ask(SlotId{id_});
    if (!answer.has_value()) {
      if (is_still_outstanding(answer.assume_error())) return answer;
      seen_ = Seen::failure;
      failure_ = std::move(answer).assume_error();
    } else if (answer.assume_value()) {
      seen_ = Seen::success;
      success_ = *answer.assume_value();
    } else {
      return answer;
    }
  }
  if (seen_ == Seen::failure) return failure_;
  return std::optional<WorkSuccess>{success_};
}

Result<WorkSuccess> PendingWork::wait(Deadline deadline) noexcept {
  if (seen_ == Seen::nothing) {
    ChannelState* const state = living(channel_);
    if (state == nullptr) return channel_is_gone();
    auto answer = state->wait(SlotId{id_}, deadline);
    if (!answer.has_value()) {
      if (is_still_outstanding(answer.assume_error())) return answer;
      seen_ = Seen::failure;
      failure_ = std::move(answer).assume_error();
    } else {
      seen_ = Seen::success;
      success_ = answer.assume_value();
    }
  }
  if (seen_ == Seen::failure) return failure_;
  return success_;
}

}  // namespace lend
