// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for many handles at once: polls their queues once a round, not once a handle. The thread of
// the channels.
#include <base/giving_up.hpp>
#include <channel/parts/failure_log.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/set_state.hpp>
#include <channel/work/handle_access.hpp>
#include <lend/channel/wait_many.hpp>

#include <array>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace lend {

using channel::ChannelState;
using channel::HandleAccess;

namespace {

/// A channel that `works` are of, or whose set they share; null if none of them has one.
Result<ChannelState*> common_channel(std::span<PendingWork const> works) noexcept {
  ChannelState* common = nullptr;
  for (PendingWork const& work : works) {
    ChannelState* const own = HandleAccess::channel_of(work);
    if (own == nullptr || !HandleAccess::is_pending(work)) continue;
    if (common == nullptr) common = own;
    auto const* const set = own->progress.set();
    if (own != common && (set == nullptr || set != common->progress.set()))
      return Error{Errc::invalid_argument,
                   "these works are of channels that share no WaitSet: build the channels with one "
                   "wait_set(), or wait for each work"};
  }
  return common;
}

/// Takes results that are there. Returns the number of indices.
Result<std::size_t> take_results(std::span<PendingWork> works,
                                 std::span<std::size_t> into) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < works.size() && count < into.size(); ++i) {
    if (!HandleAccess::is_pending(works[i]) || !HandleAccess::is_worth_a_poll(works[i])) continue;
    auto polled = works[i].poll();
    if (!HandleAccess::is_pending(works[i]))
      into[count++] = i;
    else if (!polled.has_value() && count == 0)  // else it shows again at the next call
      return std::move(polled).assume_error();
  }
  return count;
}

/// Polls, with a pause if nothing came. False once the deadline has passed.
Result<bool> poll_or_pause(ChannelState& channel, channel::Waiter& waiter,
                           std::span<PendingWork const> works, Deadline deadline) noexcept {
  ChannelState::Use const use{channel};
  channel::SetState* const set = channel.progress.set();
  if (set == nullptr) return channel.poll_or_pause(waiter, deadline);
  bool const goes_on = set->poll_or_pause(waiter, deadline);
  if (!channel.losses.has_source()) return goes_on;
  for (PendingWork const& work : works)
    if (ChannelState* const own = HandleAccess::channel_of(work);
        own != nullptr && HandleAccess::is_pending(work) &&
        (!waiter.is_spinning() || own->watch.counts_empty_poll()))
      own->losses.look_for_losses(waiter);
  return goes_on;
}

}  // namespace

Result<std::span<std::size_t>> wait_some(std::span<PendingWork> works, std::span<std::size_t> into,
                                         Deadline deadline) noexcept {
  if (into.empty())
    return Error{Errc::invalid_argument,
                 "there is no room for an index: give a span of one or more"};
  LEND_TRY(common, common_channel(works));
  std::optional<channel::Waiter> waiter;
  for (;;) {
    LEND_TRY(count, take_results(works, into));
    // Without a channel no result will come.
    if (count > 0 || common == nullptr) return into.first(count);
    if (!waiter) {
      channel::SetState* const set = common->progress.set();
      waiter.emplace(set != nullptr ? set->make_waiter() : common->progress.make_waiter());
    }
    LEND_TRY(goes_on, poll_or_pause(*common, *waiter, works, deadline));
    if (!goes_on) return base::gave_up(deadline, "no work had a result", "; all are as before");
  }
}

Result<std::optional<std::size_t>> wait_any(std::span<PendingWork> works,
                                            Deadline deadline) noexcept {
  std::array<std::size_t, 1> one;
  LEND_TRY(found, wait_some(works, one, deadline));
  if (found.empty()) return std::optional<std::size_t>{};
  return std::optional{found.front()};
}

Result<void> wait_all(std::span<PendingWork> works, Deadline deadline) noexcept {
  std::vector<Error> failures;
  std::optional<Error> last;
  for (PendingWork& work : works) {
    auto waited = work.wait(deadline);
    if (waited.has_value()) continue;
    if (HandleAccess::is_pending(work)) return std::move(waited).assume_error();
    last = std::move(waited).assume_error();
    try {
      failures.push_back(*last);
    } catch (std::bad_alloc const&) {
      // The handles have all of them.
    }
  }
  if (!last) return success();
  return failures.empty() ? *last : channel::root_with_others(std::move(failures));
}

}  // namespace lend
