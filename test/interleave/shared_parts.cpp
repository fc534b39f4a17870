// SPDX-License-Identifier: MIT OR Apache-2.0
// What the explored sources call and is not explored with them.
#include "interleave/shared_parts.hpp"

#include <soft/segment/event_marks.hpp>
#include <soft/segment/wake_pipe.hpp>

using namespace lend::interleave;
using namespace lend::soft;

std::shared_ptr<Atomic<std::uint32_t>> lend::interleave::tokens;

Rung WakePipes::wake(SharedWake const&) noexcept {
  if (!tokens) return Rung::gone;
  tokens->fetch_add(1);
  futex_wake_one(*tokens);
  return Rung::yes;
}
void lend::soft::notify_owner(CompletionQueue&, bool) noexcept {}
void lend::soft::raise_events(Segment&, SharedQueuePair& shared, std::uint32_t bits,
                              WakePipes&) noexcept {
  shared.events.set(shared.events.get() | bits);
}
