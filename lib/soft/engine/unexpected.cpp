// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages that came before their receive: offered by their sender, taken by their receiver.
#include <soft/engine/unexpected.hpp>

#include <soft/engine/placing.hpp>
#include <soft/memory/copy.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/segment/bounce.hpp>
#include <soft/segment/completion_ring.hpp>
#include <soft/segment/pool_ring.hpp>
#include <soft/segment/receive_ring.hpp>

#include <algorithm>
#include <mutex>
#include <span>

namespace lend::soft {
namespace {

/// The bytes and the kind of a message, copied from where its sender may scribble.
struct Message {
  explicit Message(UnexpectedMessage const& from) noexcept
      : ticket{from.ticket.get()},
        length{from.length.get()},
        immediate{from.immediate.get()},
        flags{from.flags.get()},
        bytes{from.bytes} {}

  std::uint64_t ticket;
  std::uint32_t length;
  std::uint32_t immediate;
  std::uint32_t flags;
  std::byte const* bytes;
};

/// Whether the message fits in the receive, whose pieces are valid memory of `pd`.
bool fits(QueuePair const& qp, ibv_pd const& pd, PostedReceive& receive,
          std::uint32_t length) noexcept {
  if (length > UnexpectedMessage::bytes_max || length > receive.length) return false;
  auto left = length;
  for (auto const& piece : std::span{receive.pieces(), receive.piece_count}) {
    auto const part = std::min(piece.length, left);
    if (part != 0 && !qp.owner().regions.permits(piece.lkey, pd.handle, piece.addr, part,
                                                 IBV_ACCESS_LOCAL_WRITE))
      return false;
    left -= part;
    if (left == 0) break;
  }
  return true;
}

/// The next post of a receive for `target` looks.
void mark_message(Segment& segment, SharedQueuePair& target) noexcept {
  target.awaited.fetch_or(awaited_by_message);
  auto const pool = target.pool.get() - 1u;
  if (pool < receive_pools_max) segment.receive_pools[pool].is_awaited.set(1);
}

Pushed complete(QueuePair& qp, Message const& message, std::uint32_t receive) noexcept {
  auto& context = qp.owner();
  ReceiveEnd end;
  end.queue_pair = qp.index;
  end.epoch = qp.shared->epoch.get();
  end.receive = receive;
  end.length = message.length;
  end.immediate = message.immediate;
  end.status = IBV_WC_SUCCESS;
  end.kind = ReceiveKind::send;
  end.flags = static_cast<std::uint8_t>(message.flags & IBV_WC_WITH_IMM);
  end.inline_length = 0;
  end.is_solicited = (message.flags & UnexpectedMessage::is_solicited) != 0;
  end.marks = 0;
  return push_receive_end(context.segment, qp.shared->completion_queue.get(), end, context.claimant,
                          context.own_wakers);
}

/// Into the next receive of the queue pair's own. False: nothing was done.
bool receive(QueuePair& qp, Message const& message) noexcept {
  auto const position = qp.shared->receive_tail.load(std::memory_order_relaxed);
  // Under receive_lock: what is counted is valid. A peer may have scribbled over the position.
  if (position - qp.receive_done.load(std::memory_order_relaxed) >=
      qp.receive_posted.load(std::memory_order_relaxed) -
          qp.receive_done.load(std::memory_order_relaxed))
    return false;
  auto& posted = qp.posted_at(position);
  if (!fits(qp, *qp.pd, posted, message.length)) return false;
  place_bytes(qp, *qp.pd, posted, message.bytes, message.length);
  if (complete(qp, message, static_cast<std::uint32_t>(position)) != Pushed::yes) return false;
  qp.shared->receive_tail.store(position + 1, std::memory_order_relaxed);
  return true;
}

/// Into the next receive of the shared queue. False: it was not received; a receive that was taken
/// for it stays claimed, for its sender.
bool receive_from_pool(QueuePair& qp, Message const& message) noexcept {
  auto& context = qp.owner();
  auto& pool = *qp.pool();
  auto const claim = qp.shared->claim.get();
  auto const taken = claim != 0 ? taken_before(pool.ring, claim)
                                : take_from_pool(pool.ring, *qp.shared, qp.index, context.claimant,
                                                 context.segment.header.async, context.own_wakers);
  if (taken.is_held || taken.receive == nullptr) return false;
  {
    std::lock_guard const posters{pool.lock};
    // A peer may have scribbled over the claim, or the order: only what is posted is whole.
    auto const word = qp.shared->claim.get();
    if (taken.index >= pool.depth || PoolRing::index_of(word) != taken.index ||
        pool.words[taken.index] != word)
      return false;
    auto& posted = pool.kept_at(taken.index);
    if (!fits(qp, *pool.pd, posted, message.length)) return false;
    place_bytes(qp, *pool.pd, posted, message.bytes, message.length);
  }
  if (complete(qp, message, taken.index) != Pushed::yes) return false;
  qp.shared->claim.set(0);
  return true;
}

}  // namespace

void offer_message(QueuePair& qp, Work const& work, Stretches const& ours,
                   SharedQueuePair& target) noexcept {
  if (ours.total > UnexpectedMessage::bytes_max || qp.attributes.rnr_retry == 0) return;
  if (work.opcode != IBV_WR_SEND && work.opcode != IBV_WR_SEND_WITH_IMM) return;
  auto& segment = qp.peer->segment();
  auto* const buffers = bounce_of(segment, target);
  if (buffers == nullptr) return;
  auto* const place = &buffers->unexpected;
  auto* to = place->bytes;
  for (auto const& piece : std::span{ours.items, ours.count}) {
    copy_in_order(to, piece.mapped, piece.length);
    to += piece.length;
  }
  qp.offered = Offer::ticket_of(qp.epoch, ++qp.offers_made);
  qp.offered_length = static_cast<std::uint32_t>(ours.total);
  place->length.set(qp.offered_length);
  place->immediate.set(work.immediate);
  place->flags.set((work.opcode == IBV_WR_SEND_WITH_IMM ? unsigned{IBV_WC_WITH_IMM} : 0) |
                   (work.is_solicited() ? UnexpectedMessage::is_solicited : 0));
  place->ticket.set(qp.offered);
  qp.shared->offer.make(qp.offered);
  mark_message(segment, target);
}

void take_message(QueuePair& qp) noexcept {
  auto& context = qp.owner();
  auto& shared = *qp.shared;
  if (!shared.rx.lock_in_time(context.claimant)) return;  // its sender may be at it itself
  RobustGuard const guard{shared.rx, std::adopt_lock};
  auto const state = shared.state.load(std::memory_order_relaxed);
  auto* const buffers = bounce_of(context.segment, shared);
  if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS) || buffers == nullptr) return;
  Message const message{buffers->unexpected};
  auto& offer = qp.target->offer;
  if (message.ticket == Offer::no_ticket || !offer.begin(message.ticket)) return;
  if (qp.srq == nullptr ? receive(qp, message) : receive_from_pool(qp, message))
    return offer.end(message.ticket);
  offer.cancel(message.ticket);
  // Others that share the queue may have been faster.
  if (qp.srq != nullptr) mark_message(context.segment, shared);
}

}  // namespace lend::soft
