// SPDX-License-Identifier: MIT OR Apache-2.0
// The counting and recording itself. The thread of the channel.
#include <base/error_access.hpp>
#include <channel/observation.hpp>

#include <algorithm>
#include <new>

namespace lend::channel {

namespace {

using observe::EventKind;

constexpr std::uint64_t events_told = 8;

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
  if (!observer_->has_counter()) [[unlikely]]
    return count_any_by_call(id, operation, outstanding, is_message);
  std::uint64_t const now = observe::Clock::counter();
  observer_->note_outstanding(operation, outstanding);
  count_and_record(id, operation, is_message, now);
}

[[gnu::noinline]] void Observation::count_any_by_call(SlotId id, Operation operation,
                                                      std::uint32_t outstanding,
                                                      bool is_message) noexcept {
  std::uint64_t const now = observe::raw_nanoseconds();
  observer_->note_outstanding(operation, outstanding);
  count_and_record(id, operation, is_message, now);
}

void Observation::post_chained(SlotId id, bool is_message, std::uint64_t now) noexcept {
  count_and_record(id, slots_.tenant(id).work.operation, is_message, now);
}

[[gnu::always_inline]] inline void Observation::count_and_record(SlotId id, Operation operation,
                                                                 bool is_message,
                                                                 std::uint64_t now) noexcept {
  observer_->post(id.index(), operation, now);
  observe::Recorder* const recorder = observer_->recorder();
  if (recorder == nullptr) return;
  Slot const& slot = slots_.tenant(id);
  auto const [file, line] = slot.posted_at();
  recorder->add({.at = now,
                 .bytes = slot.work.bytes,
                 .slot = id.index(),
                 .message = is_message ? recorder->next_sent() : 0,
                 .line = static_cast<std::uint16_t>(std::min(line, unsigned{UINT16_MAX})),
                 .kind = static_cast<std::uint8_t>(EventKind::posted),
                 .operation = static_cast<std::uint8_t>(operation)},
                file);
}

[[gnu::noinline]] void Observation::count_success(SlotId id, Slot const& slot) noexcept {
  if (observer_->is_quick()) [[likely]]
    observer_->succeed(id.index(), slot.work.operation, slot.work.bytes, observe::Clock::counter());
  else
    count_success_slowly(id, slot);
}

[[gnu::noinline]] void Observation::count_success_slowly(SlotId id, Slot const& slot) noexcept {
  if (!observer_->has_counter()) [[unlikely]]
    return count_success_by_call(id, slot);
  count_and_record(id, slot, observe::Clock::counter());
}

[[gnu::noinline]] void Observation::count_success_by_call(SlotId id, Slot const& slot) noexcept {
  count_and_record(id, slot, observe::raw_nanoseconds());
}

[[gnu::always_inline]] inline void Observation::count_and_record(SlotId id, Slot const& slot,
                                                                 std::uint64_t now) noexcept {
  Operation const operation = slot.work.operation;
  observer_->succeed(id.index(), operation, slot.work.bytes, now);
  observe::Recorder* const recorder = observer_->recorder();
  if (recorder == nullptr) return;
  recorder->add({.at = now,
                 .bytes = slot.work.bytes,
                 .slot = id.index(),
                 .message = operation == Operation::receive ? recorder->next_received() : 0,
                 .kind = static_cast<std::uint8_t>(EventKind::completed),
                 .operation = static_cast<std::uint8_t>(operation)});
}

[[gnu::cold]] void Observation::fail(SlotId id, Slot const& slot, WorkStatus status) noexcept {
  if (!is_on() || !observer_->counts(id.index())) return;
  observer_->fail(slot.work.operation, status);
  observe::Recorder* const recorder = observer_->own_recorder();
  if (recorder == nullptr) return;
  recorder->add({.at = observer_->now(),
                 .bytes = slot.work.bytes,
                 .slot = id.index(),
                 .kind = static_cast<std::uint8_t>(EventKind::failed),
                 .operation = static_cast<std::uint8_t>(slot.work.operation),
                 .status = static_cast<std::uint8_t>(status)});
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
