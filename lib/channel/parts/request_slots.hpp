// SPDX-License-Identifier: MIT OR Apache-2.0
// The slots of a channel's requests, and who takes the result of each: its handle or its scope.
// Inline for each end. The thread of the channel.
#pragma once

#include <base/slot_table.hpp>
#include <channel/parts/failure_log.hpp>
#include <channel/parts/slot.hpp>

#include <cstdint>
#include <vector>

namespace lend::channel {

/// It is the table and refers to none, because each end of a request would read the reference.
class RequestSlots : public base::SlotTable<Slot> {
 public:
  RequestSlots(std::uint32_t capacity, FailureLog& failures)
      : base::SlotTable<Slot>{capacity}, failures_{failures} {}

  // ---- the request has ended ----

  /// Its failure, which deliver() is to pass on.
  void set_failure(Slot& slot, Error failure) noexcept;
  /// Of an outstanding one: it is found without a search, and in the order seen.
  void list_failed(SlotId id) noexcept;
  /// A success was left to its handle.
  void note_last(Slot const& slot) noexcept { last_finished_ = id_of(slot); }
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
    release(slot);
  }
  /// The result was taken, or there is none.
  void release(Slot& slot) noexcept {
    slot.finished = false;
    slot.work.forget_message();
    if (slot.failed) [[unlikely]] {
      slot.failed = false;
      slot.failure = Error{};
    }
    free(slot);
  }

  // ---- its handle ----

  /// Took the result of a successful request.
  [[gnu::always_inline]] void collect(Slot& slot) noexcept {
    --slot.scope->finished;
    release(slot);
  }
  /// Takes the failure of a failed request.
  [[nodiscard]] Error collect_failure(Slot& slot) noexcept;
  /// Was dropped. Where this answers false, drop_finished() is to follow.
  [[nodiscard, gnu::always_inline]] bool drop_handle(SlotId id) noexcept {
    if (!has_still(id)) return true;
    Slot& slot = tenant(id);
    slot.held = false;
    return !slot.finished;
  }
  void drop_finished(SlotId id) noexcept {
    Slot& slot = tenant(id);
    --slot.scope->finished;
    deliver_to_scope(slot);
  }

  // ---- its scope ----

  /// Makes the scope's handles stale; the scope reports the failures.
  void retire_handles_of(ScopeRecord& scope) noexcept;
  /// Visits used slots, failed ones first, in the order in which the failures were seen, while
  /// `visit` answers true.
  template <class Visit>
  void for_each_as_seen(Visit&& visit) noexcept {
    for (SlotId const id : failed_slots_)
      if (Slot* const slot = find(id); slot != nullptr && !visit(*slot)) return;
    for_each_while([&](SlotId, Slot& slot) { return visit(slot); });
  }

 private:
  void keep_failure(Slot& slot) noexcept;
  void retire_others_of(ScopeRecord& scope) noexcept;

  FailureLog& failures_;
  std::vector<SlotId> failed_slots_{};  // in the order seen; nothing is posted after the first
  SlotId last_finished_{};              // the last success that was left to its handle
};

}  // namespace lend::channel
