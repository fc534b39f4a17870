// SPDX-License-Identifier: MIT OR Apache-2.0
// The send queue between posting and executing: what must wait, and when it is tried again.
#pragma once

#include <soft/engine/engine.hpp>
#include <soft/engine/faults.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>

namespace lend::soft {

/// Each operation passes here once, in the order of posting.
inline void order_fault(QueuePair& qp, Work& work) noexcept {
  auto& faults = qp.owner().faults;
  if (faults.are_planned()) [[unlikely]]
    work.fault = faults.next_operation();
}
/// The work is the first that waits. False when its fault broke the queue pair before it.
[[nodiscard]] inline bool start(QueuePair& qp, Work const& work) noexcept {
  if (work.fault == nullptr) [[likely]]
    return true;
  strike(qp, *work.fault);
  return !qp.is_flushing;
}
/// Appends the work to what waits, or is to be flushed. The caller holds send_lock.
void defer(QueuePair&, Work const&) noexcept;
/// Executes the work, or defers it. The caller holds send_lock.
inline void submit(QueuePair& qp, Work& work) noexcept {
  order_fault(qp, work);
  if (!qp.is_flushing && qp.stall.why == Stall::Why::none && start(qp, work) && try_once(qp, work))
    return;
  defer(qp, work);
}
/// Makes the next `count` slots behind the tail work that waits, and executes what can be. The
/// caller holds send_lock.
void adopt_pending(QueuePair&, std::uint32_t count) noexcept;
/// Executes what waits, as far as it goes. The caller holds send_lock.
void retry_pending(QueuePair&) noexcept;

/// In SQD only what had started goes on; says so when that is over. The caller holds send_lock.
void hold_sends(QueuePair&) noexcept;
/// Out of SQD again. The caller holds send_lock.
void resume_sends(QueuePair&) noexcept;

/// Retries what is stalled on any queue pair of the context. For sleepers: who posts the receives
/// that it waits for is to end the timer thread's rest. False: somebody else looks after some of it
/// now.
enum class RetriedFor : bool { pollers, sleepers };
bool retry_stalled(Context&, RetriedFor) noexcept;

}  // namespace lend::soft
