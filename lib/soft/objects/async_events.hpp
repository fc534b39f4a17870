// SPDX-License-Identifier: MIT OR Apache-2.0
// Asynchronous events: what happened to a queue pair or queue and no completion tells. Any thread.
// See segment/event_marks.hpp for how they are marked.
#pragma once

#include <soft/objects/completion_queue.hpp>
#include <soft/segment/event_marks.hpp>

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

struct Context;
struct QueuePair;
struct ReceivePool;

/// The private ring of a queue of ours was full.
void tell_overrun(CompletionQueue&) noexcept;
/// The port went down or became active.
void tell_port(Context&, bool is_up) noexcept;

/// Where only a peer that executes a long request could say whether there is an event it waits, at
/// most for holder_patience. Then -1 with EBUSY, or at once with EAGAIN where the descriptor has
/// O_NONBLOCK; the event, if there is one, is still there.
int get_async_event(ibv_context*, ibv_async_event*) noexcept;
void ack_async_event(ibv_async_event*) noexcept;

/// Before the object goes: its events that were not taken are dropped. The caller holds
/// Context::control, and rx or the lock of the queue.
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
