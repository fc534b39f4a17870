// SPDX-License-Identifier: MIT OR Apache-2.0
// The counting and recording itself. The thread of the channel.
#include <base/error_access.hpp>
#include <channel/observation.hpp>

#include <algorithm>
#include <new>

namespace lend::channel {

namespace {

using observe::Event;
using observe::EventKind;

constexpr std::uint64_t events_told = 8;

Event event_of(EventKind kind, std::uint64_t now, SlotId id, Operation operation,
               std::uint64_t bytes) noexcept {
  return {.at = now,
          .bytes = bytes,
          .slot = id.index(),
          .kind = static_cast<std::uint8_t>(kind),
          .operation = static_cast<std::uint8_t>(operation)};
}

}  // namespace

// What is slow is apart, so that the rest needs no frame.

template <Operation operation>
[[gnu::noinline]] void Observation::count_post(SlotId id, std::uint32_t outstanding) noexcept {
  if (observer_->is_quick()) [[likely]] {
    observer_->post(id.index(), operation, observe::Clock::counter());
    observer_->note_outstanding(operation, outstanding);
  } else {
    count_any(id, operation, outstanding, operation == Operation::send);
  }
}

template void Observation::count_post<Operation::send>(SlotId, std::uint32_t) noexcept;
template void Observation::count_post<Operation::receive>(SlotId, std::uint32_t) noexcept;
template void Observation::count_post<Operation::write>(SlotId, std::uint32_t) noexcept;
template void Observation::count_post<Operation::read>(SlotId, std::uint32_t) noexcept;
template void Observation::count_post<Operation::atomic>(SlotId, std::uint32_t) noexcept;

[[gnu::noinline]] void Observation::count_any(SlotId id, Operation operation,
                                              std::uint32_t outstanding, bool is_message) noexcept {
  std::uint64_t const now = observer_->now();
  observer_->post(id.index(), operation, now);
  observer_->note_outstanding(operation, outstanding);
  record_post(id, operation, is_message, now);
}

void Observation::post_chained(SlotId id, bool is_message, std::uint64_t now) noexcept {
  Operation const operation = slots_.tenant(id).work.operation;
  observer_->post(id.index(), operation, now);
  record_post(id, operation, is_message, now);
}

void Observation::record_post(SlotId id, Operation operation, bool is_message,
                              std::uint64_t now) noexcept {
  observe::Recorder* const recorder = observer_->recorder();
  if (recorder == nullptr) return;
  Slot const& slot = slots_.tenant(id);
  Event event = event_of(EventKind::posted, now, id, operation, slot.work.bytes);
  if (is_message) event.message = recorder->next_sent();
  if (base::Loan const& loan = slot.pieces->loan; loan.on_loan()) {
    auto const [file, line] = loan.where();
    event.file = recorder->index_of(file);
    event.line = static_cast<std::uint16_t>(std::min(line, unsigned{UINT16_MAX}));
  }
  recorder->add(event);
}

[[gnu::noinline]] void Observation::count_success(SlotId id, Slot const& slot) noexcept {
  if (observer_->is_quick()) [[likely]]
    observer_->succeed(id.index(), slot.work.operation, slot.work.bytes, observe::Clock::counter());
  else
    count_success_slowly(id, slot);
}

[[gnu::noinline]] void Observation::count_success_slowly(SlotId id, Slot const& slot) noexcept {
  std::uint64_t const now = observer_->now();
  Operation const operation = slot.work.operation;
  observer_->succeed(id.index(), operation, slot.work.bytes, now);
  observe::Recorder* const recorder = observer_->recorder();
  if (recorder == nullptr) return;
  Event event = event_of(EventKind::completed, now, id, operation, slot.work.bytes);
  if (operation == Operation::receive) event.message = recorder->next_received();
  recorder->add(event);
}

[[gnu::cold]] void Observation::fail(SlotId id, Slot const& slot, WorkStatus status) noexcept {
  if (!is_on() || !observer_->counts(id.index())) return;
  observer_->fail(slot.work.operation, status);
  observe::Recorder* const recorder = observer_->own_recorder();
  if (recorder == nullptr) return;
  Event event =
      event_of(EventKind::failed, observer_->now(), id, slot.work.operation, slot.work.bytes);
  event.status = static_cast<std::uint8_t>(status);
  recorder->add(event);
}

void Observation::note_room_wait() noexcept {
  if (!is_on()) return;
  ++observer_->metrics.room_waits;
  if (observe::Recorder* const recorder = observer_->own_recorder())
    recorder->add({.at = observer_->now(),
                   .slot = observe::no_slot,
                   .kind = static_cast<std::uint8_t>(EventKind::room_wait)});
}

void Observation::take_pooled(std::uint64_t bytes) noexcept {
  if (!is_on()) return;
  observer_->take_pooled(bytes);
  if (observe::Recorder* const recorder = observer_->own_recorder())
    recorder->add({.at = observer_->now(),
                   .bytes = bytes,
                   .slot = observe::no_slot,
                   .message = recorder->next_received(),
                   .kind = static_cast<std::uint8_t>(EventKind::completed),
                   .operation = static_cast<std::uint8_t>(Operation::receive)});
}

[[gnu::cold]] Error Observation::with_events(Error const& error) noexcept {
  observe::Recorder* const recorder = is_on() ? observer_->own_recorder() : nullptr;
  if (recorder == nullptr || base::ErrorAccess::has_events(error)) return error;
  std::uint64_t const now = observer_->now();
  Error told = error;
  try {
    told = base::ErrorAccess::with_events(error, recorder->last(events_told, now));
  } catch (std::bad_alloc const&) {
    // The error says enough.
  }
  recorder->add(
      {.at = now, .slot = observe::no_slot, .kind = static_cast<std::uint8_t>(EventKind::broke)});
  return told;
}

void Observation::name_ends(observe::EndName const& own, observe::EndName const& peer,
                            bool is_ordered) noexcept {
  if (is_on() && observer_->own_recorder() != nullptr)
    observer_->own_recorder()->name_ends(own, peer, is_ordered);
}

}  // namespace lend::channel
