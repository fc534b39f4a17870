// SPDX-License-Identifier: MIT OR Apache-2.0
// Failures, and the ends of scopes. The thread of the channel.
#include <channel/parts/request_slots.hpp>

#include <new>
#include <utility>

namespace lend::channel {

void RequestSlots::set_failure(Slot& slot, Error failure) noexcept {
  slot.failed = true;
  slot.failure = std::move(failure);
  slot.posted_or_failed = failures_.next_number();
}

void RequestSlots::list_failed(SlotId id) noexcept try {
  failed_slots_.push_back(id);
} catch (std::bad_alloc const&) {
  // Only the search takes longer.
}

[[gnu::cold]] Error RequestSlots::collect_failure(Slot& slot) noexcept {
  --slot.scope->finished;
  Error failure = failures_.explained(slot.failure);
  release(slot);
  return failure;
}

[[gnu::cold]] void RequestSlots::keep_failure(Slot& slot) noexcept {
  FailureLog::keep(*slot.scope, failures_.explained(slot.failure), slot.posted_or_failed);
}

void RequestSlots::retire_handles_of(ScopeRecord& scope) noexcept {
  if (scope.finished == 0) return;
  // Mostly it is one, and the last; to find others takes a walk.
  if (Slot* const last = find(last_finished_); last != nullptr && last->scope == &scope) {
    deliver_to_scope(*last);
    if (--scope.finished == 0) return;
  }
  retire_others_of(scope);
}

[[gnu::noinline]] void RequestSlots::retire_others_of(ScopeRecord& scope) noexcept {
  for_each_as_seen([this, &scope](Slot& slot) {
    if (slot.scope != &scope) return true;
    deliver_to_scope(slot);
    return --scope.finished > 0;
  });
}

}  // namespace lend::channel
