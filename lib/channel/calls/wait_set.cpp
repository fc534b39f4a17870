// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time; wake() any.
#include <channel/work/access.hpp>
#include <lend/base/stop.hpp>
#include <lend/channel/set_calls.hpp>
#include <lend/channel/wait_set.hpp>

#include <utility>

namespace lend {

using channel::SetState;

Result<WaitSet> WaitSet::create(Context const& context, Wait how) {
  LEND_TRY(state, SetState::create(context, how));
  return WaitSet{std::move(state)};
}

WaitSet::WaitSet(std::shared_ptr<SetState> state) noexcept : state_{std::move(state)} {}
WaitSet::WaitSet(WaitSet&&) noexcept = default;
WaitSet& WaitSet::operator=(WaitSet&&) noexcept = default;
WaitSet::~WaitSet() = default;

SetState& WaitSet::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a WaitSet was used after it had been moved from");
  return *state_;
}

Result<std::span<Ready>> WaitSet::poll(std::span<Ready> into) noexcept {
  SetState::Use const use{state()};
  return state_->poll(into);
}
Result<std::span<Ready>> WaitSet::wait(std::span<Ready> into, Deadline deadline) noexcept {
  SetState::Use const use{state()};
  return state_->wait(into, deadline);
}
int WaitSet::descriptor() const noexcept {
  return state().descriptors.epoll();
}
Result<bool> WaitSet::arm() noexcept {
  SetState::Use const use{state()};
  return state_->arm_for_program();
}
void WaitSet::wake() noexcept {
  state().descriptors.wake();
}

namespace channel {

Result<bool> SetCalls::poll(WaitSet& set) noexcept {
  return SetAccess{set}.poll_without_list();
}
Result<bool> SetCalls::arm(WaitSet& set) noexcept {
  return SetAccess{set}.arm_beside_news();
}
bool SetCalls::is_of_set(PendingWork const& work, int descriptor) noexcept {
  ChannelState const* const own = HandleAccess::channel_of(work);
  if (own == nullptr || !HandleAccess::is_pending(work)) return true;
  SetState const* const set = own->progress.set();
  return set != nullptr && set->descriptors.epoll() == descriptor;
}
bool SetCalls::may_be_over(PendingWork const& work) noexcept {
  return !HandleAccess::is_pending(work) || HandleAccess::is_worth_a_poll(work);
}

}  // namespace channel

}  // namespace lend
