// SPDX-License-Identifier: MIT OR Apache-2.0
// The requests of one channel: slots, loans, room. Inline for each post. The channel's thread.
#pragma once

#include <base/slot_table.hpp>
#include <channel/parts/failure_log.hpp>
#include <channel/parts/observation.hpp>
#include <channel/parts/queue_room.hpp>
#include <channel/parts/slot.hpp>
#include <lend/base/result.hpp>
#include <verbs/memory/loan_row.hpp>
#include <verbs/queue/polling.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace lend::channel {

/// Tracks each request from open() to its end; Slot lists the states in order.
class InFlight {
 public:
  /// `elements`: maximum of one request.
  InFlight(std::uint32_t send_depth, std::uint32_t receive_depth, std::uint32_t elements,
           FailureLog& failures);
  ~InFlight();
  InFlight(InFlight const&) = delete;
  InFlight& operator=(InFlight const&) = delete;

  // ---- room ----

  [[nodiscard]] std::uint32_t slot_count() const noexcept { return slots_.capacity(); }
  [[nodiscard]] bool has_slot() const noexcept { return !slots_.full(); }
  [[nodiscard]] bool has_room(Operation operation) const noexcept {
    return room_.has(operation) && has_slot();
  }
  /// The same, but false where an observed channel is to note that.
  [[nodiscard]] bool has_room_as_before(Operation operation) const noexcept {
    return room_.has_as_before(operation) && has_slot();
  }
  /// In the operation's queue.
  [[nodiscard]] std::uint32_t outstanding(Operation of) const noexcept { return room_.taken(of); }
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return room_.taken(); }
  /// Removes all room: the channel is broken.
  void close() noexcept { room_.close(); }
  /// queue_full if handles hold every slot, so that no wait makes room.
  [[nodiscard]] Result<void> check_slots() noexcept;

  // ---- one request ----

  /// The slot for the next request. One must be free.
  [[nodiscard]] Slot& next() noexcept { return slots_.next(); }
  [[nodiscard]] SlotId next_id() const noexcept { return slots_.next_id(); }
  /// Takes the next() slot with its next_id() for a request, which is in `state`.
  void open(Slot& next, SlotId id, Operation operation, ScopeRecord& scope, std::uint64_t bytes,
            SlotState state) noexcept {
    next.scope = &scope;
    next.work.operation = operation;
    next.work.bytes = bytes;
    next.state() = state;
    slots_.take(next, id);
  }
  /// The same for a request with a handle, of which nothing more is known yet.
  SlotId open(Slot& next, Operation operation, ScopeRecord& scope) noexcept {
    SlotId const id = next_id();
    open(next, id, operation, scope, 0, {.held = true});
    next.pieces->loan.forget_where();
    return id;
  }
  /// The same for a request of lend itself, without a handle or a scope.
  [[nodiscard]] SlotId open_marker(Operation operation) noexcept;
  void make_marker(Slot& slot) noexcept;
  [[nodiscard]] bool is_marker(Slot const& slot) const noexcept { return slot.scope == &markers_; }

  /// Whether the request of an id that open() gave has its slot still.
  [[nodiscard]] bool has(SlotId id) const noexcept { return slots_.has_still(id); }
  /// The same of a number that a completion brings.
  [[nodiscard]] bool has_any(SlotId id) const noexcept { return slots_.has(id); }
  /// The slot of an id that it has().
  [[nodiscard]] Slot& slot(SlotId id) noexcept { return slots_.tenant(id); }
  [[nodiscard]] Slot* find(SlotId id) noexcept { return slots_.find(id); }

  /// The device took `count` requests of `operation`, or may have.
  [[gnu::always_inline]] void note_posted(Operation operation, ScopeRecord& scope,
                                          std::uint32_t count = 1) noexcept {
    room_.take(operation, count);
    scope.outstanding += count;
  }
  /// The same of a marker.
  void note_posted(Slot& slot) noexcept {
    slot.unposted = false;
    note_posted(slot.work.operation, *slot.scope);
  }
  /// Gives a slot without loans room for those of several elements. False without memory.
  [[nodiscard]] bool widen(SlotId id, Slot& slot) noexcept;
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
    slots_.free(slot, id);
  }
  /// The same of a request that never took the next() slot, in whose row its loan is.
  [[gnu::always_inline]] void skip(Slot& next) noexcept {
    verbs::end_loan(*next.pieces);
    slots_.skip(next);
  }
  /// It is not outstanding any more.
  [[gnu::always_inline]] void note_over(Operation operation, ScopeRecord& scope) noexcept {
    room_.give_back(operation);
    --scope.outstanding;
  }
  /// The request failed with `failure`: an outstanding one, or one of a batch.
  void fail(SlotId id, Slot& slot, Error failure) noexcept;
  /// The device gave the request back: ends it without a result, its handle is stale.
  void take_back(Slot& slot) noexcept;
  /// Keeps its loans for good: the device keeps the queue pair.
  void keep_loans(Slot& slot) noexcept;
  /// Ends the unsignaled requests before it, because requests of one queue complete in order.
  void succeed_before(Slot& slot) noexcept;
  /// The handle has taken the result of a successful request.
  [[gnu::always_inline]] void collect(Slot& slot) noexcept {
    --slot.scope->finished;
    free(slot);
  }
  /// The handle takes the failure of a failed request.
  [[nodiscard]] Error collect_failure(Slot& slot) noexcept;
  /// The handle was dropped. Where this answers false, drop_finished() is to follow.
  [[nodiscard, gnu::always_inline]] bool drop_handle(SlotId id) noexcept {
    if (!has(id)) return true;
    Slot& slot = slots_.tenant(id);
    slot.held = false;
    return !slot.finished;
  }
  void drop_finished(SlotId id) noexcept {
    Slot& slot = slots_.tenant(id);
    --slot.scope->finished;
    deliver_to_scope(slot);
  }

  // ---- all requests ----
  [[nodiscard]] bool has_receive_of(ScopeRecord const& scope) noexcept;  // outstanding
  /// Makes the scope's handles stale; the scope reports the failures.
  void retire_handles_of(ScopeRecord& scope) noexcept;
  /// The channel ends, without outstanding requests.
  void retire_all() noexcept;
  /// Leaks the loans, because the ledgers of regions still refer to them.
  void leak_loans() noexcept;
  template <class Visit>
  void for_each_outstanding(Visit&& visit) noexcept {
    slots_.for_each([&](SlotId id, Slot& slot) {
      if (!slot.finished && !slot.unposted) visit(id, slot);
    });
  }

  Observation observed{room_};

 private:
  void succeed_one_by_one(SlotId last) noexcept;  // and those before it
  /// The request has ended: returns bytes and room.
  void finish(Slot& slot) noexcept {
    verbs::give_back_all(slot.pieces, slot.loans);
    note_over(slot.work.operation, *slot.scope);
    slot.finished = true;
  }
  /// Passes the result to the handle or, without one, to the scope.
  [[gnu::always_inline]] void deliver(Slot& slot) noexcept {
    if (slot.held)
      ++slot.scope->finished;
    else
      deliver_to_scope(slot);
  }
  [[gnu::always_inline]] void deliver_to_scope(Slot& slot) noexcept {
    ++slot.scope->unpolled;
    if (slot.failed) [[unlikely]]
      keep_failure(slot);
    free(slot);
  }
  void keep_failure(Slot& slot) noexcept;
  void free(Slot& slot) noexcept {
    slot.finished = false;
    slot.work.forget_message();
    if (slot.failed) [[unlikely]] {
      slot.failed = false;
      slot.failure = Error{};
    }
    slots_.free(slot);
  }
  void retire_others_of(ScopeRecord& scope) noexcept;
  /// Visits used slots, failed ones first, in the order in which the failures were seen, while
  /// `visit` answers true.
  template <class Visit>
  void for_each_as_seen(Visit&& visit) noexcept;

  base::SlotTable<Slot> slots_;
  QueueRoom room_;
  std::unique_ptr<verbs::LentPiece[]> pieces_;  // one for each slot
  std::unique_ptr<verbs::LentPiece[]> rows_{};  // elements_ for each, made when first used
  std::uint32_t const elements_;
  std::vector<SlotId> failed_slots_{};  // in the order seen; nothing is posted after the first
  SlotId last_finished_{};              // the last success that was left to its handle
  ScopeRecord markers_{};
  bool keeps_loans_ = false;
  FailureLog& failures_;
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
    last_finished_ = slots_.id_of(slot);
  } else {
    slot.state() = {};
    ++slot.scope->unpolled;
    slots_.free(slot);
  }
}

}  // namespace lend::channel
