// SPDX-License-Identifier: MIT OR Apache-2.0
// Marks of asynchronous events in shared memory, set by the process that causes one. Any thread.
//
// It first writes a token into the owner's pipe and then marks the object, both under a lock that
// it holds anyway; the owner's thread that takes the token checks the mark under the same lock. A
// death in between costs a token without an event.
#pragma once

#include <soft/segment/layout.hpp>
#include <soft/segment/wake_pipe.hpp>

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

/// In SharedQueuePair::events.
[[nodiscard]] constexpr std::uint32_t bit_of(ibv_event_type event) noexcept {
  return 1u << event;
}
/// The event for the owner of a responder's fault that no completion reports. Source: InfiniBand
/// Architecture Specification vol. 1, 9.9.3 (responder faults) and 11.6.3 (asynchronous events).
[[nodiscard]] constexpr std::uint32_t event_of(ibv_wc_status status) noexcept {
  return status == IBV_WC_REM_ACCESS_ERR    ? bit_of(IBV_EVENT_QP_ACCESS_ERR)
         : status == IBV_WC_REM_INV_REQ_ERR ? bit_of(IBV_EVENT_QP_REQ_ERR)
         : status == IBV_WC_REM_OP_ERR      ? bit_of(IBV_EVENT_QP_FATAL)
                                            : 0;
}
inline constexpr std::uint32_t was_established = 1u << 31;  // that event is raised once
inline constexpr std::uint32_t is_breaking = 1u << 30;      // no event: see looks_broken()

/// In SharedCompletionQueue::overrun and SharedReceivePool::limit_reached.
inline constexpr std::uint32_t event_untold = 1;
inline constexpr std::uint32_t event_told = 2;

/// Whether a peer moved it to ERR, or is about to and holds rx, or died at it.
[[nodiscard]] inline bool looks_broken(SharedQueuePair const& shared) noexcept {
  return shared.state.load(std::memory_order_relaxed) == IBV_QPS_ERR ||
         (shared.events.get() & is_breaking) != 0;
}

/// Marks the events in `bits`. The caller holds rx of that queue pair of `segment`.
void raise_events(Segment& segment, SharedQueuePair&, std::uint32_t bits, WakePipes&) noexcept;

}  // namespace lend::soft
