// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages that came before their receive: who posts the receive takes them.
//
// A message at the head of a send queue that finds no receive is offered (segment/offer.hpp): a
// small one is copied to the target's segment, of a longer one of one piece the target learns where
// its bytes are. The program that posts the receive takes it there, so that the sender need not run
// once more before it arrives: where processes share CPUs, that is a switch of processes. It stays
// a waiting request with its budget. The sender retries it as any other, but asks first whether it
// was taken, and withdraws the offer: when it finds a receive itself, when the budget is over, when
// the queue pair breaks, and when memory is deregistered. What the receiver cannot place it leaves
// to the sender, who finds out why.
#pragma once

#include <soft/memory/extent.hpp>
#include <soft/objects/queue_pair.hpp>

namespace lend::soft {

/// Offers the message `ours` of `work` at `target`, where it found no receive; or does nothing. The
/// caller holds send_lock and rx of the target.
void offer_message(QueuePair&, Work const&, Extents const& ours, SharedQueuePair& target) noexcept;

/// A receive was posted to the queue pair, or to its shared receive queue: takes the message that
/// waits for it, if one does. The caller holds receive_lock; the queue pair has a peer.
void take_message(QueuePair&) noexcept;

}  // namespace lend::soft
