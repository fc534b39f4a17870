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
//
// A message that finds its receive in private memory, which its sender may not write, is offered,
// too, if it is longer than what goes by the eager ring: the receiver's next poll copies it, from
// mapped memory or by cross-memory attach. Its sender waits for that without a budget, as a card's
// program does not: the receiver's device is its program.
#pragma once

#include <soft/memory/extent.hpp>
#include <soft/objects/queue_pair.hpp>

namespace lend::soft {

/// Offers the message `ours` of `work` at `target`, where it found no receive; or does nothing. The
/// caller holds send_lock and rx of the target.
void offer_message(QueuePair&, Work const&, Extents const& ours, SharedQueuePair& target) noexcept;

/// Offers the message of `work` to the receiver, who is to copy it to the receive that it found.
/// False: it cannot. The caller is as before, and calls the receiver.
[[nodiscard]] bool offer_to_copy(QueuePair&, Work const&, SharedQueuePair& target) noexcept;

/// A receive was posted to the queue pair, or to its shared receive queue, or the peer has called:
/// takes the message that waits for it, if one does. False: it can later. The caller holds
/// receive_lock; the queue pair has a peer.
bool take_message(QueuePair&) noexcept;

}  // namespace lend::soft
