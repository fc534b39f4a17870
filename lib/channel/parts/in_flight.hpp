// SPDX-License-Identifier: MIT OR Apache-2.0
// The requests of one channel, from post to end. Inline for each post. The channel's thread.
#pragma once

#include <channel/parts/loan_rows.hpp>
#include <channel/parts/observation.hpp>
#include <channel/parts/queue_room.hpp>
#include <channel/parts/request_slots.hpp>
#include <channel/parts/slot.hpp>
#include <verbs/memory/loan_row.hpp>
#include <verbs/queue/polling.hpp>

#include <cstdint>

namespace lend::channel {

/// Tracks each request from open() to its end; Slot lists the states in order.
class InFlight {
 public:
  /// `elements`: maximum of one request.
  InFlight(std::uint32_t send_depth, std::uint32_t receive_depth, std::uint32_t elements,
           FailureLog& failures);
  InFlight(InFlight const&) = delete;
  InFlight& operator=(InFlight const&) = delete;

  /// For one more request.
  [[nodiscard]] bool has_room(Operation operation) const noexcept {
    return room.has(operation) && !slots.full();
  }
  /// The same, but false where an observed channel is to note that.
  [[nodiscard]] bool has_room_as_before(Operation operation) const noexcept {
    return room.has_as_before(operation) && !slots.full();
  }

  // ---- one request ----

  /// Takes the next() of the slots with its next_id() for a request, which is in `state`.
  void open(Slot& next, SlotId id, Operation operation, ScopeRecord& scope, std::uint64_t bytes,
            SlotState state) noexcept {
    next.scope = &scope;
    next.work.operation = operation;
    next.work.bytes = bytes;
    next.state() = state;
    slots.take(next, id);
  }
  /// The same for a request with a handle, of which nothing more is known yet.
  SlotId open(Slot& next, Operation operation, ScopeRecord& scope) noexcept {
    SlotId const id = slots.next_id();
    open(next, id, operation, scope, 0, {.held = true});
    next.pieces->loan.forget_where();
    return id;
  }
  /// The same for a request of lend itself, without a handle or a scope.
  [[nodiscard]] SlotId open_marker(Operation operation) noexcept;
  void make_marker(Slot& slot) noexcept;
  [[nodiscard]] bool is_marker(Slot const& slot) const noexcept { return slot.scope == &markers_; }

  /// The device took `count` requests of `operation`, or may have.
  [[gnu::always_inline]] void note_posted(Operation operation, ScopeRecord& scope,
                                          std::uint32_t count = 1) noexcept {
    room.take(operation, count);
    scope.outstanding += count;
  }
  /// The same of a marker.
  void note_posted(Slot& slot) noexcept {
    slot.unposted = false;
    note_posted(slot.work.operation, *slot.scope);
  }
  /// The request was not posted: returns loans and slot.
  void cancel(Slot& slot) noexcept;
  /// The completion of the request was seen; of a receive, its work has the message.
  void succeed(Slot& slot) noexcept;
  /// Whether succeed_usual() does the same in few instructions.
  [[nodiscard, gnu::always_inline]] static bool is_usual(Slot const& slot) noexcept {
    SlotState state = slot;
    state.held = false;
    return state.is(plain_and_unheld);
  }
  /// Of a receive, or else of any other `operation`.
  template <Operation operation>
  void succeed_usual(Slot& slot) noexcept;
  /// Whether free_at_once() may end the request: one of a handle, with a loan at most.
  [[nodiscard, gnu::always_inline]] bool is_plain(Slot const& slot) const noexcept {
    return slot.is(plain_and_held);
  }
  /// Ends a request that is_plain(), and whose result its handle takes here and now: returns its
  /// bytes and its slot.
  [[gnu::always_inline]] void free_at_once(Slot& slot, SlotId id) noexcept {
    verbs::end_loan(*slot.pieces);
    slot.state() = {};
    slots.free(slot, id);
  }
  /// The same of a request that never took the next() slot, in whose row its loan is.
  [[gnu::always_inline]] void skip(Slot& next) noexcept {
    verbs::end_loan(*next.pieces);
    slots.skip(next);
  }
  /// It is not outstanding any more.
  [[gnu::always_inline]] void note_over(Operation operation, ScopeRecord& scope) noexcept {
    room.give_back(operation);
    --scope.outstanding;
  }
  /// The request failed with `failure`: an outstanding one, or one of a batch.
  void fail(SlotId id, Slot& slot, Error failure) noexcept;
  /// The device gave the request back: ends it without a result, its handle is stale.
  void take_back(Slot& slot) noexcept;
  /// Ends the unsignaled requests before it, because requests of one queue complete in order.
  void succeed_before(Slot& slot) noexcept;

  // ---- all requests ----
  [[nodiscard]] bool has_receive_of(ScopeRecord const& scope) noexcept;  // outstanding
  /// The channel ends, without outstanding requests.
  void retire_all() noexcept;
  template <class Visit>
  void for_each_outstanding(Visit&& visit) noexcept {
    slots.for_each([&](SlotId id, Slot& slot) {
      if (!slot.finished && !slot.unposted) visit(id, slot);
    });
  }

  RequestSlots slots;
  QueueRoom room;
  LoanRows rows;
  Observation observed{room};

 private:
  void succeed_one_by_one(SlotId last) noexcept;  // and those before it
  /// The request has ended: returns bytes and room.
  void finish(Slot& slot) noexcept {
    verbs::give_back_all(slot.pieces, slot.loans);
    note_over(slot.work.operation, *slot.scope);
    slot.finished = true;
  }

  ScopeRecord markers_{};
};

template <Operation operation>
[[gnu::always_inline]] inline void InFlight::succeed_usual(Slot& slot) noexcept {
  observed.probe_success(slot, slot.work.operation);
  observed.succeed(slot);
  verbs::end_loan(*slot.pieces);
  note_over(operation, *slot.scope);
  if (slot.held) {
    slot.state() = {.held = true, .finished = true};
    ++slot.scope->finished;
    slots.note_last(slot);
  } else {
    slot.state() = {};
    ++slot.scope->unpolled;
    slots.free(slot);
  }
}

}  // namespace lend::channel
