// SPDX-License-Identifier: MIT OR Apache-2.0
// Waking the owner of a queue pair for its events.
#include <soft/segment/event_marks.hpp>

namespace lend::soft {

void raise_events(Segment& segment, SharedQueuePair& shared, std::uint32_t bits,
                  WakePipes& wake_pipes) noexcept {
  auto const known = shared.events.get();
  auto const fresh = bits & ~known & ~(was_established | is_breaking);
  for (auto left = fresh; left != 0; left &= left - 1) (void)wake_pipes.wake(segment.header.async);
  shared.events.set(known | bits);
}

}  // namespace lend::soft
