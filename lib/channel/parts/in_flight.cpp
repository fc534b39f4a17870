// SPDX-License-Identifier: MIT OR Apache-2.0
// The rarely used parts: failures, batches, and the ends of scopes. The thread of the channel.
#include <channel/parts/in_flight.hpp>

#include <new>
#include <string>
#include <utility>

namespace lend::channel {

InFlight::InFlight(std::uint32_t send_depth, std::uint32_t receive_depth, std::uint32_t elements,
                   FailureLog& failures)
    : slots_{(send_depth + receive_depth)      // every request that can be outstanding
             + (send_depth + receive_depth)},  // as many finished ones that handles hold
      room_{send_depth, receive_depth},
      pieces_{std::make_unique<verbs::LentPiece[]>(slots_.capacity())},
      elements_{elements},
      failures_{failures} {
  slots_.for_each_slot([piece = pieces_.get(), index = 0u](Slot& slot) mutable {
    slot.pieces = piece++;
    slot.work.slot = index++;
  });
}

InFlight::~InFlight() {
  if (!keeps_loans_) return;
  // The ledgers of regions still refer to them.
  verbs::keep_loans_for_ever(pieces_.release());
  if (rows_ != nullptr) verbs::keep_loans_for_ever(rows_.release());
}

bool InFlight::widen(SlotId id, Slot& slot) noexcept {
  if (rows_ == nullptr)
    rows_.reset(new (std::nothrow) verbs::LentPiece[std::size_t{slots_.capacity()} * elements_]);
  if (rows_ == nullptr) return false;
  slot.pieces = rows_.get() + std::size_t{id.index()} * elements_;
  return true;
}

Result<void> InFlight::check_slots() noexcept {
  if (!slots_.full()) return success();
  bool may_be_freed = false;
  bool has_unposted = false;
  slots_.for_each([&](SlotId, Slot const& slot) {
    may_be_freed |= !(slot.held || slot.finished || slot.unposted);
    has_unposted |= slot.unposted;
  });
  if (may_be_freed) return success();
  return Error{Errc::queue_full,
               "all " + std::to_string(slots_.capacity()) + " slots are held by handles" +
                   (has_unposted ? " and batches: post the batches, " : ": ") +
                   "take the results of finished work or drop its handles, then post again"};
}

SlotId InFlight::open_marker(Operation operation) noexcept {
  Slot& marker = next();
  SlotId const id = open(marker, operation, markers_);
  marker.held = false;
  marker.posted_or_failed = 0;
  return id;
}

void InFlight::make_marker(Slot& slot) noexcept {
  slot.held = false;
  slot.scope = &markers_;
}

[[gnu::cold]] void InFlight::cancel(Slot& slot) noexcept {
  verbs::give_back_all(slot.pieces, slot.loans);
  slot.unposted = false;
  static_cast<void>(slot.unfollow());
  free(slot);
}

[[gnu::cold]] void InFlight::fail(SlotId id, Slot& slot, Error failure) noexcept {
  slot.failed = true;
  slot.failure = std::move(failure);
  slot.posted_or_failed = failures_.next_number();
  if (slot.unposted) {  // as finish() otherwise
    slot.unposted = false;
    static_cast<void>(slot.unfollow());
    verbs::give_back_all(slot.pieces, slot.loans);
    slot.finished = true;
  } else {
    finish(slot);
    try {
      failed_slots_.push_back(id);
    } catch (std::bad_alloc const&) {
      // Only the search takes longer.
    }
  }
  deliver(slot);
}

void InFlight::succeed(Slot& slot) noexcept {
  if (slot.follows) succeed_before(slot);
  if (!is_marker(slot)) observed.probe_success(slot, slot.work.operation);
  observed.succeed_unusually(slot);
  finish(slot);
  deliver(slot);
}

void InFlight::take_back(Slot& slot) noexcept {
  observed.probe_failure(slot, WorkStatus::flushed);
  observed.fail(slot, WorkStatus::flushed);
  finish(slot);
  free(slot);
}

void InFlight::keep_loans(Slot& slot) noexcept {
  slot.loans = 0;
  keeps_loans_ = true;
}

void InFlight::leak_loans() noexcept {
  static_cast<void>(pieces_.release());
  static_cast<void>(rows_.release());
}

void InFlight::succeed_before(Slot& slot) noexcept {
  // Each ends with the next signaled one; one that failed had a completion, which ended those
  // before. They are of one batch, and so of one scope and queue.
  SlotId id = slot.unfollow();
  if (!id.is_valid()) return;
  if (observed.is_on()) [[unlikely]]
    return succeed_one_by_one(id);
  ScopeRecord* scope = nullptr;
  std::uint32_t count = 0;
  while (has(id)) {
    Slot& silent = slots_.tenant(id);
    if (!silent.is(silent_and_unheld)) break;
    observed.probe_success(silent, silent.work.operation);
    verbs::end_loan(*silent.pieces);
    scope = silent.scope;
    slots_.free(silent, std::exchange(id, silent.before));
    ++count;
    if (!id.is_valid()) break;
  }
  if (count > 0) {
    room_.give_back(Operation::send, count);
    scope->outstanding -= count;
    scope->unpolled += count;
  }
  succeed_one_by_one(id);
}

void InFlight::succeed_one_by_one(SlotId last) noexcept {
  while (last.is_valid() && has(last)) {
    Slot& silent = slots_.tenant(last);
    if (silent.finished) return;
    last = silent.unfollow();
    if (is_usual(silent)) [[likely]]
      succeed_usual<Operation::send>(silent);
    else
      succeed(silent);
  }
}

[[gnu::cold]] Error InFlight::collect_failure(Slot& slot) noexcept {
  --slot.scope->finished;
  Error failure = failures_.explained(slot.failure);
  free(slot);
  return failure;
}

[[gnu::cold]] void InFlight::keep_failure(Slot& slot) noexcept {
  FailureLog::keep(*slot.scope, failures_.explained(slot.failure), slot.posted_or_failed);
}

bool InFlight::has_receive_of(ScopeRecord const& scope) noexcept {
  // A visit of all slots takes thousands of instructions.
  if (scope.outstanding == 0 || outstanding(Operation::receive) == 0) return false;
  bool has = false;
  for_each_outstanding([&](SlotId, Slot const& slot) {
    has = has || (slot.scope == &scope && slot.work.operation == Operation::receive);
  });
  return has;
}

template <class Visit>
void InFlight::for_each_as_seen(Visit&& visit) noexcept {
  for (SlotId const id : failed_slots_)
    if (Slot* const slot = slots_.find(id); slot != nullptr && !visit(*slot)) return;
  slots_.for_each_while([&](SlotId, Slot& slot) { return visit(slot); });
}

void InFlight::retire_handles_of(ScopeRecord& scope) noexcept {
  if (scope.finished == 0) return;
  // Mostly it is one, and the last; to find others takes a walk.
  if (Slot* const last = slots_.find(last_finished_); last != nullptr && last->scope == &scope) {
    deliver_to_scope(*last);
    if (--scope.finished == 0) return;
  }
  retire_others_of(scope);
}

[[gnu::noinline]] void InFlight::retire_others_of(ScopeRecord& scope) noexcept {
  for_each_as_seen([this, &scope](Slot& slot) {
    if (slot.scope != &scope) return true;
    deliver_to_scope(slot);
    return --scope.finished > 0;
  });
}

void InFlight::retire_all() noexcept {
  for_each_as_seen([this](Slot& slot) {
    if (slot.unposted)
      cancel(slot);
    else
      deliver_to_scope(slot);
    return true;
  });
}

}  // namespace lend::channel
