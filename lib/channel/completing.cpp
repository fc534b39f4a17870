// SPDX-License-Identifier: MIT OR Apache-2.0
// From a completion to whoever asks for it: the bytes come back, then the slot is settled.
#include <channel/batching.hpp>
#include <channel/completing.hpp>
#include <verbs/region_state.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lend {

namespace {

// A look costs a system call: one in 512 is lost in the cost of the polls, and a wait that naps
// 50 µs at a time looks every 30 ms.
constexpr std::uint32_t empty_polls_per_look = 512;
// Of a program that polls every now and then, which may never come to 512.
constexpr std::chrono::milliseconds longest_between_looks{10};

template <class T>
void make_room(std::vector<T>& values, std::size_t more) {
  if (values.capacity() - values.size() < more) values.reserve(2 * values.size() + more);
}

}  // namespace

void give_back_all_but_one(Slot& slot) noexcept {
  for (; slot.loans > 1; --slot.loans) {
    auto& [loan, region] = slot.pieces[slot.loans - 1];
    end_loan(loan, region);
  }
}

int ChannelState::take() noexcept {
  TakenCompletions entries;
  int const count = entries.take(*raw_completions_, poll_batch);
  take_all(entries, count);
  return count;
}

void ChannelState::take_all(TakenCompletions const& entries, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    CompletionEntry const entry = entries[i];
    SlotId const id{entry.id()};
    if (entry.has_failed() || !slots_.has(id)) [[unlikely]]
      take_unusual(id, entry);
    else
      take_success(slots_.tenant(id), entry);
  }
}

[[gnu::cold]] void ChannelState::take_back(Slot& slot) noexcept {
  give_back_all(slot);
  release(slot);
}

[[gnu::cold]] void ChannelState::fail(SlotId id, Slot& slot, FailedWork const& failed) noexcept {
  bool const was_broken = is_broken();
  succeed_before(slot);  // they complete in order
  slot.failed = true;
  slot.failure = failure_of(id, slot, failed);  // while its loans tell where it was posted
  if (kept_) slot.loans = 0;                    // they never end
  end(slot);
  if (!kept_) {
    if (first_cause_ && failed.status == WorkStatus::flushed && slot.scope != &markers_)
      first_cause_->count_flushed();
    break_with(slot.failure);
  }
  try {
    failed_slots_.push_back(id);
  } catch (std::bad_alloc const&) {
    // It is only searched for longer.
  }
  slot.failed_as = ++failures_seen_;
  settle(slot);
  if (!was_broken && queue_pair_) {
    // Of itself SoftRoCE leaves a receive unflushed that was posted after the failure and before it
    // was seen. Source: kernel drivers/infiniband/sw/rxe/rxe_verbs.c, rxe_post_recv. What is
    // refused here is tried again by the drain.
    start_flush();
  }
}

[[gnu::cold]] void ChannelState::take_unusual(SlotId id, CompletionEntry entry) noexcept {
  if (Slot* const slot = slots_.find(id)) return fail(id, *slot, entry.failure());
  std::optional<FailedWork> failed;
  if (entry.has_failed()) failed = entry.failure();
  end_without_slot(id.value, failed ? &*failed : nullptr);
}

Result<std::uint32_t> ChannelState::poll() noexcept {
  int const taken = take();
  if (taken < 0) [[unlikely]]
    return poll_failure(taken);
  if (taken == 0) count_empty_poll();
  return static_cast<std::uint32_t>(taken);
}

void ChannelState::count_empty_poll() noexcept {
  if (is_attentive_ && ++keep_alive_.empty_polls % empty_polls_per_look == 0) look_around();
}

void ChannelState::look_in_time() noexcept {
  if (!is_attentive_ || !keep_alive_.next_look.has_passed()) return;
  keep_alive_.next_look = within(longest_between_looks);
  look_around();
}

bool ChannelState::pause(Waiter& waiter, Deadline deadline) noexcept {
  bool const goes_on = waiter.pause(deadline);
  // At its end too: an event loop may never wait but for no time at all.
  if (is_attentive_) [[unlikely]]
    attend(waiter);
  return goes_on;
}

void ChannelState::look_at_peer() noexcept {
  // A flush is no reason: it may have come before the one there is.
  if (!queue_pair_ || (first_cause_ && !first_cause_->is_flush())) return;
  if (auto const reason = lost(Deadline{Deadline::Clock::now()})) {
    break_with(*reason);
    start_flush();  // waits and drains see to its end
  }
}

[[gnu::cold]] void ChannelState::note_failure(Slot& slot) noexcept {
  keep_as_seen(*slot.scope, told(slot.failure), slot.failed_as);
}

[[gnu::cold]] void ChannelState::take_failure(Slot& slot) noexcept {
  learn_reason(Deadline::never());
  reason_ = told(slot.failure);
  release(slot);
}

[[gnu::cold]] void ChannelState::keep_as_seen(ScopeRecord& record, Error const& failure,
                                              std::uint64_t as) noexcept {
  auto& failures = record.failures;
  auto& numbers = record.seen_as;
  auto const place = std::ranges::upper_bound(numbers, as) - numbers.begin();  // mostly the end
  try {
    make_room(failures, 2);  // one for last_failures(), to tell of those that were lost
    make_room(numbers, 1);
  } catch (std::bad_alloc const&) {
    // The text is lost, but not that there was one.
    record.has_lost_failure = true;
    return;
  }
  failures.insert(failures.begin() + place, failure);
  numbers.insert(numbers.begin() + place, as);
}

[[gnu::cold]] Error ChannelState::work_is_gone() noexcept {
  return Error{Errc::stale_handle,
               "this work was taken back before it was posted, or its scope has ended"};
}

ChannelState::Answer ChannelState::ask(SlotId id, WorkSuccess& success) noexcept {
  Slot* const slot = slots_.find(id);
  if (slot == nullptr) {
    reason_ = work_is_gone();
    return Answer::failed;
  }
  if (slot->unposted) [[unlikely]]  // what hinders that, the poll below says or the next wait
    static_cast<void>(
        Batching{*this}.post_all(*slot->scope, Deadline{Deadline::Clock::now()}, slot));
  if (!slot->finished) {
    auto const polled = poll();
    if (!polled.has_value()) {
      reason_ = of_this_work(polled.error(), id, *slot);
      return Answer::unknown;
    }
    if (polled.value() == 0) look_in_time();
    // Not every device brings back all of it of itself.
    if (is_broken() && polled.value() == 0) [[unlikely]]
      hurry_flush();
    if (!slot->finished) return Answer::not_over;
  }
  if (slot->failed && !learn_reason(Deadline{Deadline::Clock::now()})) return Answer::not_over;
  return take_result(*slot, success);
}

[[gnu::noinline]] bool ChannelState::wait_longer(SlotId id, Slot& slot,
                                                 Deadline deadline) noexcept {
  bool has_polled = true;  // wait_for_own() has
  if (slot.unposted) [[unlikely]] {
    auto posted = Batching{*this}.post_all(*slot.scope, deadline, &slot);
    if (slot.unposted) {
      reason_ = of_this_work(posted.assume_error(), id, slot);
      return false;
    }
    has_polled = false;
  }
  count_empty_poll();  // that of wait_for_own()
  Waiter waiter = make_waiter();
  while (!slot.finished) {
    if (is_broken()) {
      flush(*first_cause_);  // not every device brings back all of it of itself
      return true;
    }
    if (has_polled && !pause(waiter, deadline)) {
      reason_ = timed_out(id, deadline, waiter);
      return false;
    }
    has_polled = true;
    int const taken = take_own(id, slot);
    if (taken < 0) [[unlikely]] {
      reason_ = of_this_work(poll_failure(taken), id, slot);
      return false;
    }
    if (taken == 0) count_empty_poll();
  }
  return true;
}

}  // namespace lend
