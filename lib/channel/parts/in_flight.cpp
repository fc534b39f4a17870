// SPDX-License-Identifier: MIT OR Apache-2.0
// The rarely used parts: failures, markers and unsignaled requests. The thread of the channel.
#include <channel/parts/in_flight.hpp>

#include <utility>

namespace lend::channel {

InFlight::InFlight(std::uint32_t send_depth, std::uint32_t receive_depth, std::uint32_t elements,
                   FailureLog& failures)
    : slots{(send_depth + receive_depth)         // every request that can be outstanding
                + (send_depth + receive_depth),  // as many finished ones that handles hold
            failures},
      room{send_depth, receive_depth},
      rows{slots.capacity(), elements} {
  slots.for_each_slot([this, index = 0u](Slot& slot) mutable {
    slot.pieces = rows.row_of(index);
    slot.work.slot = index++;
  });
}

SlotId InFlight::open_marker(Operation operation) noexcept {
  Slot& marker = slots.next();
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
  slots.release(slot);
}

[[gnu::cold]] void InFlight::fail(SlotId id, Slot& slot, Error failure) noexcept {
  slots.set_failure(slot, std::move(failure));
  if (slot.unposted) {  // as finish() otherwise
    slot.unposted = false;
    static_cast<void>(slot.unfollow());
    verbs::give_back_all(slot.pieces, slot.loans);
    slot.finished = true;
  } else {
    finish(slot);
    slots.list_failed(id);
  }
  slots.deliver(slot);
}

void InFlight::succeed(Slot& slot) noexcept {
  if (slot.follows) succeed_before(slot);
  if (!is_marker(slot)) observed.probe_success(slot, slot.work.operation);
  observed.succeed_unusually(slot);
  finish(slot);
  slots.deliver(slot);
}

void InFlight::take_back(Slot& slot) noexcept {
  observed.probe_failure(slot, WorkStatus::flushed);
  observed.fail(slot, WorkStatus::flushed);
  finish(slot);
  slots.release(slot);
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
  while (slots.has_still(id)) {
    Slot& silent = slots.tenant(id);
    if (!silent.is(silent_and_unheld)) break;
    observed.probe_success(silent, silent.work.operation);
    verbs::end_loan(*silent.pieces);
    scope = silent.scope;
    slots.free(silent, std::exchange(id, silent.before));
    ++count;
    if (!id.is_valid()) break;
  }
  if (count > 0) {
    room.give_back(Operation::send, count);
    scope->outstanding -= count;
    scope->unpolled += count;
  }
  succeed_one_by_one(id);
}

void InFlight::succeed_one_by_one(SlotId last) noexcept {
  while (last.is_valid() && slots.has_still(last)) {
    Slot& silent = slots.tenant(last);
    if (silent.finished) return;
    last = silent.unfollow();
    if (is_usual(silent)) [[likely]]
      succeed_usual<Operation::send>(silent);
    else
      succeed(silent);
  }
}

bool InFlight::has_receive_of(ScopeRecord const& scope) noexcept {
  // A visit of all slots takes thousands of instructions.
  if (scope.outstanding == 0 || room.outstanding(Operation::receive) == 0) return false;
  bool has = false;
  for_each_outstanding([&](SlotId, Slot const& slot) {
    has = has || (slot.scope == &scope && slot.work.operation == Operation::receive);
  });
  return has;
}

void InFlight::retire_all() noexcept {
  slots.for_each_as_seen([this](Slot& slot) {
    if (slot.unposted)
      cancel(slot);
    else
      slots.deliver_to_scope(slot);
    return true;
  });
}

}  // namespace lend::channel
