// SPDX-License-Identifier: MIT OR Apache-2.0
// Completion channels: what a program sleeps on until an armed queue has something new. Any thread.
#pragma once

#include <soft/objects/completion_queue.hpp>
#include <soft/segment/wake_pipe.hpp>

#include <infiniband/verbs.h>

#include <cstddef>
#include <mutex>
#include <vector>

namespace lend::soft {

struct CompletionChannel : ibv_comp_channel {
  WakePipe pipe;
  std::mutex mutex;  // taken after Context::control, before SharedCompletionQueue::lock
  std::vector<CompletionQueue*> queues;
  std::size_t next = 0;  // where the search for an announced queue begins, so that none starves
};

[[nodiscard]] ibv_comp_channel* create_comp_channel(ibv_context*) noexcept;
int destroy_comp_channel(ibv_comp_channel*) noexcept;
/// -1 with errno of read(2), or of Context::check_ours(). While a peer holds the lock of a queue, a
/// channel that blocks waits for it, for holder_patience at most. Then, or at once where it does
/// not block, that queue has an event: whether it does cannot be known.
int get_cq_event(ibv_comp_channel*, ibv_cq** queue, void** cq_context) noexcept;
void ack_cq_events(ibv_cq*, unsigned count) noexcept;

/// So that attach() needs no memory. May throw std::bad_alloc.
void make_room(CompletionChannel&);
/// Ties a new queue to a channel.
void attach(CompletionQueue&, CompletionChannel&) noexcept;
/// Unties it: no event of it comes out any more. The caller holds the channel's mutex and the lock
/// of the queue.
void detach(CompletionQueue&) noexcept;

}  // namespace lend::soft
