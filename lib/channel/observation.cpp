// SPDX-License-Identifier: MIT OR Apache-2.0
// The counting itself. The thread of the channel.
#include <channel/observation.hpp>

namespace lend::channel {

// What is slow is apart, so that the rest needs no frame.

template <Operation operation>
[[gnu::noinline]] void Observation::count_post(SlotId id, std::uint32_t outstanding) noexcept {
  if (observer_->is_quick()) [[likely]] {
    observer_->post(id.index(), operation, observe::Clock::counter());
    observer_->note_outstanding(operation, outstanding);
  } else {
    count_post_slowly(id, operation, outstanding);
  }
}

template void Observation::count_post<Operation::send>(SlotId, std::uint32_t) noexcept;
template void Observation::count_post<Operation::receive>(SlotId, std::uint32_t) noexcept;
template void Observation::count_post<Operation::write>(SlotId, std::uint32_t) noexcept;
template void Observation::count_post<Operation::read>(SlotId, std::uint32_t) noexcept;
template void Observation::count_post<Operation::atomic>(SlotId, std::uint32_t) noexcept;

[[gnu::noinline]] void Observation::count_post_slowly(SlotId id, Operation operation,
                                                      std::uint32_t outstanding) noexcept {
  observer_->post(id.index(), operation, observer_->now());
  observer_->note_outstanding(operation, outstanding);
}

[[gnu::noinline]] void Observation::count_success(SlotId id, Slot const& slot) noexcept {
  if (observer_->is_quick()) [[likely]]
    observer_->succeed(id.index(), slot.work.operation, slot.work.bytes, observe::Clock::counter());
  else
    count_success_slowly(id, slot);
}

[[gnu::noinline]] void Observation::count_success_slowly(SlotId id, Slot const& slot) noexcept {
  observer_->succeed(id.index(), slot.work.operation, slot.work.bytes, observer_->now());
}

[[gnu::cold]] void Observation::fail(SlotId id, Slot const& slot, WorkStatus status) noexcept {
  if (is_on() && observer_->counts(id.index())) observer_->fail(slot.work.operation, status);
}

}  // namespace lend::channel
