// SPDX-License-Identifier: MIT OR Apache-2.0
// What grouped calls do once, whatever their work. The thread of the set.
#include <base/giving_up.hpp>
#include <channel/state/ending.hpp>
#include <channel/work/grouped_calls.hpp>
#include <channel/work/waiting.hpp>
#include <lend/base/stop.hpp>

#include <new>
#include <string>

namespace lend::channel {

GroupedCalls::GroupedCalls(std::vector<Channel> channels, std::shared_ptr<SetState> set)
    : channels_{std::move(channels)}, blocked_in_(channels_.size()), set_{std::move(set)} {}

void GroupedCalls::stop_for_unknown(std::uint32_t peer) const noexcept {
  stop("peer " + std::to_string(peer) + " of a MultiChannel of " + std::to_string(size()) +
       " was asked for");
}

Error GroupedCalls::unknown_peer(std::size_t row, std::uint32_t peer) const noexcept {
  return {Errc::invalid_argument, "row " + std::to_string(row) + " is for peer " +
                                      std::to_string(peer) + ", but the peers are 0 to " +
                                      std::to_string(size() - 1) + "; nothing was posted"};
}

Result<void> GroupedCalls::check_count(std::size_t works, std::span<Outcome> outcomes) noexcept {
  if (outcomes.size() == works) return success();
  for (Outcome& outcome : outcomes) outcome = {};
  return refuse_all(
      {Errc::invalid_argument, "there are " + std::to_string(works) + " works and " +
                                   std::to_string(outcomes.size()) +
                                   " outcomes: give one for each; nothing was posted"},
      outcomes);
}

Result<void> GroupedCalls::refuse_all(Error why, std::span<Outcome> outcomes) noexcept {
  for (Outcome& outcome : outcomes) outcome.error = why;
  return why;
}

void GroupedCalls::wait_for(SlotId id, Outcome& outcome, Deadline deadline,
                            Waiter& waiter) noexcept {
  ChannelState& channel = ChannelState::of(channels_[outcome.peer]);
  auto const end = [&](WorkAnswer const& answer) {
    if (answer.has_succeeded()) {
      outcome.success = answer.success();
      outcome.state = Outcome::State::succeeded;
    } else {
      outcome.error = channel.failures.take_last_error();
      outcome.state = outcome.error.is_flush() ? Outcome::State::flushed : Outcome::State::failed;
    }
  };
  Slot& slot = channel.in_flight.slots.tenant(id);
  while (!slot.finished && !channel.is_broken()) {
    if (set_->poll_or_pause(waiter, deadline) || slot.finished) continue;
    channel.failures.set_last_error(base::gave_up(deadline, {}));
    return end(abort_and_ask(channel, id, deadline));
  }
  // Not every device brings back all of it of itself.
  if (!slot.finished) Ending{channel}.abort_all(*channel.failures.first_cause());
  end(collect(channel, slot));
}

Result<void> GroupedCalls::summary(std::span<Outcome const> outcomes) noexcept {
  std::vector<Error> failures;
  Error const* last = nullptr;
  try {
    for (Outcome const& row : outcomes)
      if (row.state != Outcome::State::succeeded) failures.push_back(*(last = &row.error));
  } catch (std::bad_alloc const&) {
    return *last;  // the outcomes have all of them
  }
  if (last == nullptr) return success();
  return root_with_others(std::move(failures));
}

}  // namespace lend::channel
