// SPDX-License-Identifier: MIT OR Apache-2.0
#include <base/giving_up.hpp>
#include <channel/channel_state.hpp>
#include <lend/channel/pending_work.hpp>

#include <utility>

namespace lend {

namespace {

Error channel_is_gone() noexcept {
  return Error{Errc::stale_handle, "the channel of this work is gone"};
}

}  // namespace

PendingWork::PendingWork(PendingWork&& other) noexcept
    : channel_{std::exchange(other.channel_, {})},
      id_{other.id_},
      result_{std::move(other.result_)} {}

PendingWork& PendingWork::operator=(PendingWork&& other) noexcept {
  if (this != &other) {
    drop();
    channel_ = std::exchange(other.channel_, {});
    id_ = other.id_;
    result_ = std::move(other.result_);
  }
  return *this;
}

PendingWork::~PendingWork() {
  drop();
}

void PendingWork::drop() noexcept {
  if (result_) return;  // the slot was freed when the result was taken
  if (ChannelState* const state = channel_.get()) state->drop(SlotId{id_});
}

Result<std::optional<WorkSuccess>> PendingWork::poll() noexcept {
  if (!result_) {
    ChannelState* const state = channel_.get();
    if (state == nullptr) return channel_is_gone();
    auto answer = state->ask(SlotId{id_});
    if (answer.has_value()) {
      if (!answer.assume_value()) return answer;
      result_ = *answer.assume_value();
    } else {
      if (answer.assume_error() == Errc::system_failed) return answer;  // the work goes on
      result_ = std::move(answer).assume_error();
    }
  }
  if (!result_->has_value()) return result_->assume_error();
  return std::optional<WorkSuccess>{result_->assume_value()};
}

Result<WorkSuccess> PendingWork::wait(Deadline deadline) noexcept {
  if (!result_) {
    ChannelState* const state = channel_.get();
    if (state == nullptr) return channel_is_gone();
    auto answer = state->wait(SlotId{id_}, deadline);
    if (!answer.has_value() &&
        (answer.assume_error() == Errc::system_failed || is_given_up(answer.assume_error())))
      return answer;  // the work goes on
    result_ = std::move(answer);
  }
  return *result_;
}

}  // namespace lend
