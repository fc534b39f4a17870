// SPDX-License-Identifier: MIT OR Apache-2.0
// How outstanding work is brought to an end, whatever the peer and the device do.
#include <base/giving_up.hpp>
#include <channel/completing.hpp>

#include <atomic>
#include <new>
#include <optional>
#include <utility>

namespace lend {

namespace {

// How long flushed work may take to come back. A device that needs longer loses its queue pair.
constexpr std::chrono::seconds flush_bound{2};

// Loans that never end, where checkers of leaks find them.
struct Endless {
  void const* loans;
  Endless* next;
};
constinit std::atomic<Endless*> endless{nullptr};

void keep_for_ever(void const* loans) noexcept {
  auto* const entry = new (std::nothrow) Endless{loans, nullptr};
  if (entry == nullptr) return;
  // Relaxed: nobody reads the list.
  entry->next = endless.exchange(entry, std::memory_order_relaxed);
}

}  // namespace

template <class Visit>
void ChannelState::for_each_as_seen(Visit&& visit) noexcept {
  for (SlotId const id : failed_slots_)
    if (Slot* const slot = slots_.find(id)) visit(id, *slot);
  slots_.for_each(visit);
}

ChannelState::~ChannelState() {
  Use const use{*this};
  if (outstanding_[0] + outstanding_[1] > 0)
    flush(of_this_connection(
        Error{Errc::channel_broken, "the channel was destroyed with work outstanding"}));
  // The handles are stale from here on; their scopes tell what failed.
  for_each_as_seen([this](SlotId, Slot& slot) {
    if (slot.unposted)
      take_back(slot);
    else
      settle_without_handle(slot);
  });
  if (reference_.anchor != nullptr) give_back_anchor(reference_.anchor);
  if (kept_) keep_for_ever(pieces_.release());  // the ledgers of regions still point there
}

std::optional<Error> ChannelState::drain(ScopeRecord& record, Deadline deadline,
                                         bool flush_receives) noexcept {
  std::optional<Error> cut_short;
  if (flush_receives && has_receive_of(record))
    cut_short =
        Error{Errc::channel_broken,
              "an exception left a scope while a receive was outstanding, which was flushed"};
  Waiter waiter = make_waiter();
  while (!cut_short && record.outstanding > 0) {
    if (is_broken()) {
      flush(*first_cause_);
      break;
    }
    auto const seen = poll();
    if (!seen.has_value()) {
      cut_short = seen.error();
    } else if (seen.value() > 0) {
      waiter.reset();
    } else if (record.outstanding > 0 && !pause(waiter, deadline)) {
      cut_short = gave_up(deadline, "the scope's work was not over",
                          waiter.has_slept() && port_is_down()
                              ? " and was flushed, for this side's port is down: bring its network "
                                "interface or link up"
                              : " and was flushed");
    }
  }
  if (cut_short) {
    cut_short = of_this_connection(*cut_short);
    flush(*cut_short);
  }
  learn_reason(Deadline::never());
  for (Error& failure : record.failures) failure = told(failure);
  retire_handles_of(record);
  return cut_short;
}

void ChannelState::keep_failures_of(ScopeRecord& record) noexcept {
  ++scopes_left;
  if (record.has_lost_failure) unscoped.has_lost_failure = true;
  if (unscoped.failures.empty()) {
    unscoped.failures = std::move(record.failures);
    unscoped.seen_as = std::move(record.seen_as);
  } else {
    for (std::size_t i = 0; i < record.failures.size(); ++i)
      keep_as_seen(unscoped, record.failures[i], record.seen_as[i]);
  }
}

bool ChannelState::has_receive_of(ScopeRecord const& record) noexcept {
  bool has = false;
  slots_.for_each([&](SlotId, Slot const& slot) {
    has = has || (slot.scope == &record && slot.work.operation == Operation::receive &&
                  !slot.finished && !slot.unposted);
  });
  return has;
}

bool ChannelState::start_flush() noexcept {
  if (!queue_pair_) return true;
  if (!queue_pair_->flush().has_value()) return false;
  if (!flush_until_) flush_until_ = within(flush_bound);
  return true;
}

void ChannelState::hurry_flush() noexcept {
  if (flush_until_ ? flush_until_->has_passed() : !start_flush()) abandon();
}

void ChannelState::flush(Error const& reason) noexcept {
  break_for_own(reason);
  if (!start_flush()) abandon();
  Deadline const deadline = within(flush_bound);
  Waiter waiter = make_waiter();
  while (outstanding_[0] + outstanding_[1] > 0) {
    auto const seen = poll();
    if (!seen.has_value() || (seen.value() == 0 && !pause(waiter, deadline))) return abandon();
  }
}

void ChannelState::abandon() noexcept {
  // Once the queue pair is destroyed the device touches none of its buffers any more, and its
  // remaining completions will not come. Source: ibv_destroy_qp(3).
  if (queue_pair_) {
    if (auto gone = std::move(*queue_pair_).destroy(); !gone.has_value())
      kept_ = std::move(gone).assume_error();
    queue_pair_.reset();
  }
  slots_.for_each([this](SlotId id, Slot& slot) {
    if (slot.finished || slot.unposted) return;
    slot.before = {};  // nothing is known of them either
    fail(id, slot, {WorkStatus::flushed, 0});
  });
}

void ChannelState::retire_handles_of(ScopeRecord& record) noexcept {
  if (record.finished == 0) return;
  for_each_as_seen([this, &record](SlotId, Slot& slot) {
    if (slot.scope == &record) settle_without_handle(slot);
  });
  record.finished = 0;
}

}  // namespace lend
