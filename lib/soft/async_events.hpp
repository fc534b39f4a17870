// SPDX-License-Identifier: MIT OR Apache-2.0
// Asynchronous events: what happened to a queue pair or queue and no completion tells. Any thread.
//
// Whoever causes one, of whatever process, first drops a token into the context's pipe and then
// marks the object, both under a lock that it holds anyway; who takes the token looks for the mark
// under the same lock. A death in between costs a token for nothing.
#pragma once

#include "completion_queue.hpp"
#include "layout.hpp"
#include "wake_pipe.hpp"

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

struct QueuePair;
struct ReceivePool;

/// In SharedQueuePair::events.
[[nodiscard]] constexpr std::uint32_t bit_of(ibv_event_type event) noexcept {
  return 1u << event;
}
/// What a responder's fault is to its owner, where no completion tells it. Source: InfiniBand
/// Architecture Specification vol. 1, 9.9.3 (responder faults) and 11.6.3 (asynchronous events).
[[nodiscard]] constexpr std::uint32_t event_of(ibv_wc_status status) noexcept {
  return status == IBV_WC_REM_ACCESS_ERR    ? bit_of(IBV_EVENT_QP_ACCESS_ERR)
         : status == IBV_WC_REM_INV_REQ_ERR ? bit_of(IBV_EVENT_QP_REQ_ERR)
         : status == IBV_WC_REM_OP_ERR      ? bit_of(IBV_EVENT_QP_FATAL)
                                            : 0;
}
inline constexpr std::uint32_t was_established = 1u << 31;  // that event is told once
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
void raise_events(Segment& segment, SharedQueuePair&, std::uint32_t bits, Wakers&) noexcept;
/// The private ring of a queue of ours was full.
void tell_overrun(CompletionQueue&) noexcept;

int get_async_event(ibv_context*, ibv_async_event*) noexcept;
void ack_async_event(ibv_async_event*) noexcept;

/// Before the object goes: events of it that nobody took do not come out any more. The caller holds
/// Context::control.
void forget_events(QueuePair&) noexcept;
void forget_events(CompletionQueue&) noexcept;
void forget_events(ReceivePool&) noexcept;

/// Then waits until those that came out are acknowledged. Source: ibv_get_async_event(3).
template <class Object>
void await_acknowledged(Object& object, std::uint32_t const& acknowledged,
                        std::uint32_t const& reported) noexcept {
  ::pthread_mutex_lock(&object.mutex);
  while (acknowledged != reported) ::pthread_cond_wait(&object.cond, &object.mutex);
  ::pthread_mutex_unlock(&object.mutex);
}

}  // namespace lend::soft
