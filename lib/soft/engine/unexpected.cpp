// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages that came before their receive: offered by their sender, taken by their receiver.
#include <soft/engine/unexpected.hpp>

#include <soft/engine/placing.hpp>
#include <soft/engine/request_at_target.hpp>
#include <soft/memory/copy.hpp>
#include <soft/memory/reach.hpp>
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

/// What a message is and where its bytes are, copied from where its sender may scribble.
struct Message {
  explicit Message(UnexpectedMessage const& from) noexcept
      : ticket{from.ticket.get()},
        length{from.length.get()},
        immediate{from.immediate.get()},
        flags{from.flags.get()},
        key{from.key.get()},
        address{from.address.get()},
        bytes{from.bytes} {}

  [[nodiscard]] std::uint32_t length_max() const noexcept {
    return key == 0 ? UnexpectedMessage::bytes_max : UnexpectedMessage::length_max;
  }

  std::uint64_t ticket;
  std::uint32_t length;
  std::uint32_t immediate;
  std::uint32_t flags;
  std::uint32_t key;
  std::uint64_t address;
  std::byte const* bytes;
};

/// Whether the message fits in the receive, whose pieces are valid memory of `pd`.
bool fits(QueuePair const& qp, ibv_pd const& pd, PostedReceive& receive,
          Message const& message) noexcept {
  if (message.length > message.length_max() || message.length > receive.length) return false;
  auto left = message.length;
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

/// Copies the bytes from the sender's memory to the receive, which fits. False: that cannot be
/// done here; or it was, and the memory was not valid.
bool fetch_bytes(QueuePair& qp, PostedReceive& receive, Message const& message) noexcept {
  auto& peer = *qp.peer;
  if (peer.is_dead()) return false;  // its number may be another process's
  // Of a sender in this process: it is not unmapped while it is read. Another's lies in a mapping
  // of ours, or the kernel reads it.
  KeyInUse const named{*qp.shared, message.key};
  TargetMemory theirs{peer, qp.owner().regions};
  if (theirs.add(message.key, qp.target->domain.get(), message.address, message.length, 0) !=
      TargetMemory::Answer::granted)
    return false;
  Extents ours;
  auto left = std::size_t{message.length};
  for (auto const& piece : std::span{receive.pieces(), receive.piece_count}) {
    auto const part = std::min<std::size_t>(piece.length, left);
    if (part != 0) ours.add(reinterpret_cast<std::byte*>(piece.addr), part);
    left -= part;
  }
  auto const copied = reach_by_any_thread(peer, [&](int thread) {
    return transfer(Direction::from_peer, ours, theirs.extents(), message.length, thread);
  });
  return copied == Copied::all;
}

/// Places the message in the receive, and takes it from its sender. False: it could not, or the
/// sender withdrew it.
bool take_to(QueuePair& qp, ibv_pd const& pd, PostedReceive& receive,
             Message const& message) noexcept {
  if (!fits(qp, pd, receive, message)) return false;
  if (message.key == 0)
    place_bytes(qp, pd, receive, message.bytes, message.length);
  else if (!fetch_bytes(qp, receive, message))
    return false;
  return qp.target->offer.take(message.ticket);
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
                          context.own_wake_pipes);
}

/// Into the next receive of the queue pair's own. False: nothing was done.
bool receive(QueuePair& qp, Message const& message) noexcept {
  auto const position = qp.shared->receive_tail.load(std::memory_order_relaxed);
  // Under receive_lock: what is counted is valid. A peer may have scribbled over the position.
  if (position - qp.receive_done.load(std::memory_order_relaxed) >=
      qp.receive_posted.load(std::memory_order_relaxed) -
          qp.receive_done.load(std::memory_order_relaxed))
    return false;
  if (!take_to(qp, *qp.pd, qp.posted_at(position), message)) return false;
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
  auto const taken = claim != 0
                         ? taken_before(pool.ring, claim)
                         : take_from_pool(pool.ring, *qp.shared, qp.index, context.claimant,
                                          context.segment.header.async, context.own_wake_pipes);
  if (taken.is_held || taken.receive == nullptr) return false;
  {
    std::lock_guard const posters{pool.lock};
    // A peer may have scribbled over the claim, or the order: only what is posted is whole.
    auto const word = qp.shared->claim.get();
    if (taken.index >= pool.depth || PoolRing::index_of(word) != taken.index ||
        pool.words[taken.index] != word)
      return false;
    if (!take_to(qp, *pool.pd, pool.kept_at(taken.index), message)) return false;
  }
  if (complete(qp, message, taken.index) != Pushed::yes) return false;
  qp.shared->claim.set(0);
  return true;
}

}  // namespace

void offer_message(QueuePair& qp, Work const& work, Extents const& ours,
                   SharedQueuePair& target) noexcept {
  bool const is_copied = ours.total <= UnexpectedMessage::bytes_max;
  if (ours.total > UnexpectedMessage::length_max || qp.attributes.rnr_retry == 0) return;
  if (!is_copied && work.piece_count != 1) return;
  if (work.opcode != IBV_WR_SEND && work.opcode != IBV_WR_SEND_WITH_IMM) return;
  auto& segment = qp.peer->segment();
  auto* const buffers = bounce_of(segment, target);
  if (buffers == nullptr) return;
  auto* const place = &buffers->unexpected;
  auto* to = place->bytes;
  if (is_copied)
    for (auto const& piece : std::span{ours.items, ours.count}) {
      copy_in_order(to, piece.mapped, piece.length);
      to += piece.length;
    }
  place->key.set(is_copied ? 0 : work.pieces->lkey);
  place->address.set(is_copied ? 0 : work.pieces->addr);
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
