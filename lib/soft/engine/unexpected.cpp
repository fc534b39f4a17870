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
#include <soft/segment/window_scope.hpp>

#include <algorithm>
#include <mutex>
#include <span>

namespace lend::soft {
namespace {

/// What a message is and where its bytes are, copied from where its sender may scribble.
struct Message {
  explicit Message(UnexpectedMessage& from) noexcept
      : ticket{from.ticket.get()},
        length{from.length.get()},
        immediate{from.immediate.get()},
        flags{from.flags.get()},
        piece_count{from.piece_count.get()},
        bytes{from.bytes} {
    if (piece_count > pieces_max) piece_count = length = 0, ticket = Offer::no_ticket;
    for (std::uint32_t i = 0; i < piece_count; ++i) {
      auto const& piece = from.pieces()[i];
      pieces[i] = {piece.address.get(), piece.length.get(), piece.key.get()};
    }
  }

  [[nodiscard]] std::uint32_t length_max() const noexcept {
    return piece_count == 0 ? UnexpectedMessage::bytes_max : message_bytes_max;
  }

  std::uint64_t ticket;
  std::uint32_t length;
  std::uint32_t immediate;
  std::uint32_t flags;
  std::uint32_t piece_count;  // 0: `bytes` are its bytes
  std::byte const* bytes;
  ibv_sge pieces[pieces_max];  // of the sender's memory
};

/// What became of a message: it is received, or may be later, or never.
enum class Taken : std::uint8_t { yes, later, never };

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

/// The bytes of a receive from `offset` on, `length` of them.
Extents part_of(PostedReceive& receive, std::size_t offset, std::size_t length) noexcept {
  Extents part;
  for (auto const& piece : std::span{receive.pieces(), receive.piece_count}) {
    auto const skipped = std::min<std::size_t>(offset, piece.length);
    auto const taken = std::min(piece.length - skipped, length);
    if (taken != 0) part.add(reinterpret_cast<std::byte*>(piece.addr) + skipped, taken);
    offset -= skipped;
    length -= taken;
  }
  return part;
}

/// Copies the bytes from the sender's memory to the receive, which fits. False: that cannot be
/// done here; or it was, and the memory was not valid.
bool fetch_bytes(QueuePair& qp, PostedReceive& receive, Message const& message) noexcept {
  auto& peer = *qp.peer;
  if (peer.is_dead()) return false;  // its number may be another process's
  std::size_t copied = 0;
  for (auto const& piece : std::span{message.pieces, message.piece_count}) {
    auto const length = std::min<std::size_t>(piece.length, message.length - copied);
    if (length == 0) continue;
    // Of a sender in this process: it is not unmapped while it is read. Another's lies in a mapping
    // of ours, or the kernel reads it.
    KeyInUse const named{*qp.shared, piece.lkey};
    TargetMemory theirs{peer, qp.owner().regions};
    if (theirs.add(piece.lkey, qp.target->domain.get(), piece.addr, length, 0) !=
        TargetMemory::Answer::granted)
      return false;
    auto const ours = part_of(receive, copied, length);
    auto const moved = reach_by_any_thread(peer, [&](int thread) {
      return transfer(Direction::from_peer, ours, theirs.extents(), length, thread);
    });
    if (moved != Copied::all) return false;
    copied += length;
  }
  return copied == message.length;
}

/// Places the message in the receive, and takes it from its sender, unless that withdrew it.
Taken take_to(QueuePair& qp, ibv_pd const& pd, PostedReceive& receive,
              Message const& message) noexcept {
  if (!fits(qp, pd, receive, message)) return Taken::never;
  if (message.piece_count == 0)
    place_bytes(qp, pd, receive, message.bytes, message.length);
  else if (!fetch_bytes(qp, receive, message))
    return Taken::never;
  return qp.target->offer.take(message.ticket) ? Taken::yes : Taken::later;
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
  end.flags = static_cast<std::uint8_t>(message.flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV));
  end.inline_length = 0;
  end.is_solicited = (message.flags & UnexpectedMessage::is_solicited) != 0;
  end.marks = 0;
  auto const pushed = push_receive_end(context.segment, qp.shared->completion_queue.get(), end,
                                       context.claimant, context.own_wake_pipes);
  if (pushed == Pushed::yes && (end.flags & IBV_WC_WITH_INV) != 0)
    end_return(context.segment, message.immediate);
  return pushed;
}

/// Into the next receive of the queue pair's own.
Taken receive(QueuePair& qp, Message const& message) noexcept {
  auto const position = qp.shared->receive_tail.load(std::memory_order_relaxed);
  // Under receive_lock: what is counted is valid. A peer may have scribbled over the position.
  if (position - qp.receive_done.load(std::memory_order_relaxed) >=
      qp.receive_posted.load(std::memory_order_relaxed) -
          qp.receive_done.load(std::memory_order_relaxed))
    return Taken::later;
  auto const taken = take_to(qp, *qp.pd, qp.posted_at(position), message);
  if (taken != Taken::yes) return taken;
  if (complete(qp, message, static_cast<std::uint32_t>(position)) != Pushed::yes)
    return Taken::later;
  qp.shared->receive_tail.store(position + 1, std::memory_order_relaxed);
  return Taken::yes;
}

/// Into the next receive of the shared queue. A receive that was taken for a message that was not
/// received stays claimed, for its sender.
Taken receive_from_pool(QueuePair& qp, Message const& message) noexcept {
  auto& context = qp.owner();
  auto& pool = *qp.pool();
  auto const claim = qp.shared->claim.get();
  auto const taken = claim != 0
                         ? taken_before(pool.ring, claim)
                         : take_from_pool(pool.ring, *qp.shared, qp.index, context.claimant,
                                          context.segment.header.async, context.own_wake_pipes);
  if (taken.is_held || taken.receive == nullptr) return Taken::later;
  {
    std::lock_guard const posters{pool.lock};
    // A peer may have scribbled over the claim, or the order: only what is posted is whole.
    auto const word = qp.shared->claim.get();
    if (taken.index >= pool.depth || PoolRing::index_of(word) != taken.index ||
        pool.words[taken.index] != word)
      return Taken::later;
    auto const placed = take_to(qp, *pool.pd, pool.kept_at(taken.index), message);
    if (placed != Taken::yes) return placed;
  }
  if (complete(qp, message, taken.index) != Pushed::yes) return Taken::later;
  qp.shared->claim.set(0);
  return Taken::yes;
}

/// Offers `work`, whose bytes lie at its place or are named there. The caller set piece_count.
void make_offer(QueuePair& qp, Work const& work, std::size_t length,
                UnexpectedMessage& place) noexcept {
  qp.offered = Offer::ticket_of(qp.epoch(), ++qp.offers_made);
  qp.offered_length = static_cast<std::uint32_t>(length);
  place.length.set(qp.offered_length);
  place.immediate.set(work.immediate);
  place.flags.set((has_immediate(work) ? unsigned{IBV_WC_WITH_IMM} : 0) |
                  (returns_window(work) ? unsigned{IBV_WC_WITH_INV} : 0) |
                  (work.is_solicited() ? UnexpectedMessage::is_solicited : 0));
  place.ticket.set(qp.offered);
  qp.shared->offer.make(qp.offered);
}

/// Names the pieces of `work`, and returns how long they are.
std::size_t name_pieces(Work const& work, UnexpectedMessage& place) noexcept {
  std::size_t length = 0;
  auto* named = place.pieces();
  for (auto const& piece : std::span{work.pieces, work.piece_count}) {
    named->address.set(piece.addr);
    named->length.set(piece.length);
    named->key.set(piece.lkey);
    ++named;
    length += piece.length;
  }
  place.piece_count.set(work.piece_count);
  return length;
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
  if (is_copied)
    place->piece_count.set(0);
  else
    (void)name_pieces(work, *place);
  make_offer(qp, work, ours.total, *place);
  mark_message(segment, target);
}

bool offer_to_copy(QueuePair& qp, Work const& work, SharedQueuePair& target) noexcept {
  auto* const buffers = bounce_of(qp.peer->segment(), target);
  if (buffers == nullptr) return false;
  for (auto const& piece : std::span{work.pieces, work.piece_count})
    if (piece.length != 0 && !qp.peer->reads_us() && !qp.owner().regions.is_mappable(piece.lkey))
      return false;
  auto const length = name_pieces(work, buffers->unexpected);
  make_offer(qp, work, length, buffers->unexpected);
  return true;
}

bool take_message(QueuePair& qp) noexcept {
  auto& context = qp.owner();
  auto& shared = *qp.shared;
  if (!shared.rx.lock_in_time(context.claimant)) return false;  // its sender may be at it itself
  RobustGuard const guard{shared.rx, std::adopt_lock};
  auto const state = shared.state.load(std::memory_order_relaxed);
  auto* const buffers = bounce_of(context.segment, shared);
  if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS) || buffers == nullptr) return true;
  Message const message{buffers->unexpected};
  auto& offer = qp.target->offer;
  if (message.ticket == Offer::no_ticket || !offer.begin(message.ticket)) return true;
  auto const taken = qp.srq == nullptr ? receive(qp, message) : receive_from_pool(qp, message);
  if (taken == Taken::yes) return offer.end(message.ticket), true;
  if (taken == Taken::never)
    offer.refuse(message.ticket);
  else
    offer.cancel(message.ticket);
  // Others that share the queue may have been faster.
  if (qp.srq != nullptr) mark_message(context.segment, shared);
  return taken == Taken::never;
}

}  // namespace lend::soft
