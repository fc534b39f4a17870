// SPDX-License-Identifier: MIT OR Apache-2.0
// What has come for the call under way, and waiting for it. The thread of the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/group_state.hpp>

#include <algorithm>

namespace lend::group {

namespace {

// What was written wakes no thread: one that sleeps looks after a part of the time it has waited.
constexpr int looks_per_time_waited = 64;
constexpr std::chrono::milliseconds look_pause_min{1};
constexpr std::chrono::milliseconds look_pause_max{10};

}  // namespace

// ---- in the program's own event loop ----

Result<bool> GroupState::arm() noexcept {
  LEND_TRY(has_come, look());
  if (has_come) return false;
  return set_.arm();
}
int GroupState::descriptor() const noexcept {
  return set_.descriptor();
}
Deadline GroupState::look_again() const noexcept {
  return options_.wait == Wait::event ? Deadline::never() : within(look_pause_max);
}

// ---- in calls ----

Result<void> GroupState::wait(Deadline deadline, std::string_view then) noexcept {
  // What has come counts before what was lost.
  LEND_TRY(has_come, take_what_came());
  bool const is_over = ++rounds_ >= rounds_max && deadline.has_passed();
  if (has_come && !is_over) return success();
  if (!has_come) {
    LEND_TRYV(check_for_losses());
  }
  if (!is_over) {
    if (neighbours_.are_few()) record_.set_awaited(call_.awaited());
    auto const waited = wait_for_news(deadline);
    if (waited.has_value() || !base::is_given_up(waited.error())) return waited;
  }
  missing_.clear();
  auto why = "rank " + std::to_string(call_.awaited()) + " has not come as far";
  // A program that only looks, or wants to go on, does not wait for answers.
  if (!is_polling_ && !deadline.is_cancelled()) {
    LEND_TRY(found, call_the_roll());
    if (!found.empty()) why = std::move(found);
  }
  return base::gave_up(deadline, call_.text() + " did not complete", (": " + why).append(then));
}

Result<bool> GroupState::take_what_came() noexcept {
  LEND_TRY(has_written, take_written());
  if (has_written) return true;
  LEND_TRY(ready, set_.poll(ready_));
  LEND_TRYV(take_news(ready));
  return !ready.empty();
}

Result<void> GroupState::wait_for_news(Deadline deadline,
                                       std::function<bool()> const& has_come) noexcept {
  using Clock = Deadline::Clock;
  auto look = [&, since = Clock::time_point::max()](channel::Waiter& waiter) mutable {
    auto has_written = take_written();
    if (!waiter.is_spinning() && (options_.wait != Wait::event || has_come)) {
      auto const now = Clock::now();
      since = std::min(since, now);
      waiter.look_at(within(std::clamp<Clock::duration>((now - since) / looks_per_time_waited,
                                                        look_pause_min, look_pause_max)));
    }
    if (has_come && has_written.has_value() && has_come()) return Result<bool>{true};
    return has_written;
  };
  auto const ready = channel::SetAccess{set_}.wait(ready_, deadline, look);
  if (!ready.has_value()) return ready.error();
  return take_news(ready.value());
}

Result<bool> GroupState::take_written() noexcept {
  bool has_any = false;
  for (auto const rank : linked_) {
    if (!links_[rank]->has_written()) continue;
    auto const taken = links_[rank]->take_written();
    LEND_TRYV(check_agreement(rank));
    if (!taken.has_value()) return taken;
    has_any |= taken.assume_value();
  }
  return has_any;
}

Result<void> GroupState::take_news(std::span<Ready const> ready) noexcept {
  for (Ready const& one : ready) {
    if (!is_of_link(one)) {
      peers_.note(one);
      continue;
    }
    auto const rank = rank_by_tag_[one.tag];
    auto const taken = links_[rank]->take_arrivals();
    LEND_TRYV(check_agreement(rank));
    // Its channel may break once it has left.
    if (!taken && links_[rank]->failure() == nullptr) return taken;
  }
  return success();
}

Result<void> GroupState::check_agreement(std::uint32_t rank) noexcept {
  // What comes between two calls is looked at as the next one begins.
  if (!call_.exists()) return success();
  for (auto const& [note, slot, values] : links_[rank]->arrived())
    if (!call_.agrees_with(note))
      return found(
          Fault::Reason::disagreed, rank,
          {Errc::disagreement,
           "rank " + std::to_string(rank) + " called " + text_of(note.collective, note.call_bytes) +
               " as its call " + std::to_string(note.number) + ", this rank " + call_.text() +
               ": all ranks make the same calls, with the same lengths, roots and "
               "operations"});
  return success();
}

}  // namespace lend::group
