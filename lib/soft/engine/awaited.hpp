// SPDX-License-Identifier: MIT OR Apache-2.0
// From a receive that is posted late to what waits for it: a message (unexpected.hpp), or a sender
// that sleeps. Any thread.
//
// While all threads of a sender sleep, its timer thread marks the queue pair that has no receive,
// and the queue pair's shared receive queue. Who posts there sees the mark and ends the timer
// thread's rest.
// A message that waits leaves a mark, too. One that is left to its receiver to copy leaves one that
// polls find, and calls it: nothing else moves it.
// A mark has no name: a queue pair is marked by the one that it is connected to, so that a false
// one wakes a peer for nothing and does no more. Nothing relies on the first two: a mark and a
// receive that cross each other, or meet a lock that is held, leave the sender to its timer.
#pragma once

#include <soft/objects/queue_pair.hpp>

namespace lend::soft {

struct ReceivePool;

/// If the head of the send queue waits for a receive: marks it, and looks once more. The caller
/// holds send_lock.
void await_receive(QueuePair&) noexcept;

/// A receive was posted to the queue pair, or it was called, and it is marked: takes the message,
/// wakes the sender. The caller holds receive_lock.
void serve_waiting(QueuePair&) noexcept;
/// The same of a shared receive queue. The caller holds no lock.
void serve_waiting(ReceivePool&) noexcept;

}  // namespace lend::soft
