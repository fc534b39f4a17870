// SPDX-License-Identifier: MIT OR Apache-2.0
// The short way of the most common requests: the responder's checks and stores, all in one place,
// inlined in the post. What is unusual is left to the general way (responder.cpp), before the
// target learns of it.
#pragma once

#include <soft/engine/engine.hpp>
#include <soft/engine/reached.hpp>
#include <soft/engine/request_at_target.hpp>
#include <soft/engine/taken_receive.hpp>
#include <soft/memory/copy.hpp>
#include <soft/memory/reach.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/segment/completion_ring.hpp>
#include <soft/segment/receive_ring.hpp>

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {
namespace direct {

/// Whether what takes a call is done or left. A function that calls none keeps all that a request
/// needs in registers.
enum class Rare : bool { left, done };

/// Which bytes a request names: those of a region, or a few inline; or any that are copied here and
/// now or not at all.
enum class Source : bool { posted, any };

/// The bytes that `key` of the target's domain opens with these rights, as this process sees them;
/// null if it does not, or they are not mapped.
template <Rare rare = Rare::done>
[[gnu::always_inline]] inline std::byte* find_bytes(Reached const& to, std::uint32_t key,
                                                    std::uint64_t address,
                                                    unsigned access) noexcept {
  auto const& [qp, context, peer, known, target, wr, opcode, length, is_self] = to;
  if (is_self)
    return context.regions.permits(key, known.domain, address, length, access)
               ? reinterpret_cast<std::byte*>(address)
               : nullptr;
  auto& segment = peer.segment();
  auto const region = look_up_region(segment, key, known.domain, address, length, access);
  if (!region.is_granted || region.arena >= arenas_max) return nullptr;
  // Acquire pairs with the release in Arenas::add().
  auto const generation = segment.arenas[region.arena].generation.load(std::memory_order_acquire);
  if ((known.view == nullptr || known.arena != region.arena ||
       known.view->generation() != generation) &&
      (rare == Rare::left || !look_at(qp, region.arena))) [[unlikely]]
    return nullptr;
  auto const& mapping = known.view->mapping();
  if (region.place > mapping.length() || length > mapping.length() - region.place) return nullptr;
  return mapping.base() + region.place;
}

/// Whether the receive's piece may be written by the target's device.
[[gnu::always_inline]] inline bool may_receive(Reached const& to, std::uint32_t key,
                                               std::uint64_t address) noexcept {
  auto const& [qp, context, peer, known, target, wr, opcode, length, is_self] = to;
  if (is_self)
    return context.regions.permits(key, known.domain, address, length, IBV_ACCESS_LOCAL_WRITE);
  return look_up_region(peer.segment(), key, known.domain, address, length, IBV_ACCESS_LOCAL_WRITE)
      .is_granted;
}

template <Rare rare, Source source = Source::posted>
[[gnu::always_inline]] inline bool write(Reached const& to) noexcept {
  auto const [address, key] = to.wr.wr.rdma;
  if ((to.target.access.get() & IBV_ACCESS_REMOTE_WRITE) == 0) return false;
  KeyInUse const named{to.target, key};
  auto* const bytes = find_bytes<rare>(to, key, address, IBV_ACCESS_REMOTE_WRITE);
  if (bytes == nullptr || (rare == Rare::left && !is_word(bytes, to.length))) return false;
  if (source == Source::any && !to.is_self && to.length >= past_caches_min)
    copy_past_caches(bytes, to.source(), to.length);
  else
    copy_in_order(bytes, to.source(), to.length);
  return true;
}

/// Brings a message to the receive `posted`, or leaves it to the completion, as `arrival` says.
[[gnu::always_inline]] inline bool place_message(Reached const& to, SharedReceive const& posted,
                                                 Arrival& arrival) noexcept {
  auto const& into = posted.pieces[0];  // of no bytes where there is none
  if (into.length.get() < to.length) return false;
  auto const key = into.key.get();
  auto const address = into.address.get();
  arrival.kind = ReceiveKind::send;
  if (to.length <= SharedCompletion::own_max) {
    arrival.placed = false;
    return may_receive(to, key, address);
  }
  if (to.qp.is_target_apart && to.length > SharedCompletion::inline_max) return false;
  auto* const bytes = find_bytes(to, key, address, IBV_ACCESS_LOCAL_WRITE);
  arrival.placed = bytes != nullptr;
  if (bytes == nullptr) {
    arrival.kind = ReceiveKind::wide;
    return lies_apart(to.qp, key, address, to.length);
  }
  copy_in_order(bytes, to.source(), to.length);
  return true;
}

/// Completes the receive that was found.
template <Rare rare>
[[gnu::always_inline]] inline bool complete(Reached const& to, Arrival const& arrival) noexcept {
  auto const& known = to.known;
  // Inlined, or what it captures would lie in memory.
  auto const fill = [&](SharedCompletion & slot) __attribute__((always_inline)) {
    slot.receiver.set(known.receiver);
    slot.receive.set(static_cast<std::uint32_t>(arrival.position));
    slot.length.set(to.length);
    slot.immediate.set(to.wr.imm_data);
    auto const inline_length = static_cast<std::uint8_t>(arrival.placed ? 0 : to.length);
    slot.how.set(
        ReceiveHow::of(IBV_WC_SUCCESS, arrival.kind, flags_of(to.opcode), inline_length).word);
    if (arrival.placed) return;
    if (to.length != word_bytes) return write_bytes(known.queue, slot, to.source(), to.length);
    std::uint64_t word = 0;  // most often
    copy_few(reinterpret_cast<std::byte*>(&word), to.source(), word_bytes);
    slot.bytes[0].set(word);
  };
  if (!push_plain(known.queue, to.context.claimant, arrival.is_in_stream, fill) &&
      (rare == Rare::left || !push_all(to, arrival))) [[unlikely]]
    return false;
  // After the completion: if this process dies in between, no sender matches this receive again.
  to.target.receive_tail.store(arrival.position + 1, std::memory_order_relaxed);
  return true;
}

/// The caller holds rx of the target.
template <Rare rare, Source source = Source::posted>
[[gnu::always_inline]] inline Reach reach_target(Reached const& to,
                                                 std::uint32_t outstanding) noexcept {
  auto const& [qp, context, peer, known, target, wr, opcode, length, is_self] = to;
  // Acquire pairs with modify_qp: what RTR set is there. In RTR the first message is an event.
  if (target.state.load(std::memory_order_acquire) != IBV_QPS_RTS) return Reach::left;
  if (known.epoch != target.epoch.get() && (rare == Rare::left || !learn(qp))) return Reach::left;
  if (opcode == IBV_WR_RDMA_WRITE) return write<rare, source>(to) ? Reach::done : Reach::left;
  auto const position = target.receive_tail.load(std::memory_order_relaxed);
  // Before the bytes are copied: without a receive none are.
  auto const& receives = known.receives;
  if (receives.base == nullptr) return Reach::left;
  auto const& posted = receives.at(position);
  // But for the last one of the ring.
  qp.expect_receive_at(reinterpret_cast<std::byte const*>(&posted) + receives.stride);
  if (!is_valid(posted, position)) [[unlikely]]
    return rare == Rare::done && offer(to) ? Reach::waits : Reach::left;
  Arrival arrival{position, ReceiveKind::write_with_immediate, true, outstanding >= stream_depth};
  bool const is_placed =
      is_write(opcode) ? write<rare, source>(to) : place_message(to, posted, arrival);
  return is_placed && complete<rare>(to, arrival) ? Reach::done : Reach::left;
}

/// The end of a request of `length` bytes, a success.
[[gnu::always_inline]] inline LocalCompletion end_of(QueuePair& qp, ibv_send_wr const& wr,
                                                     ibv_wr_opcode opcode, std::uint32_t length,
                                                     std::uint32_t position) noexcept {
  auto const done = is_write(opcode) ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
  return {wr.wr_id, IBV_WC_SUCCESS, done, length, position, &qp};
}
[[nodiscard]] inline bool is_signaled(QueuePair const& qp, ibv_send_wr const& wr) noexcept {
  return ((wr.send_flags | qp.flags) & IBV_SEND_SIGNALED) != 0;
}
/// Completes a request that was executed.
[[gnu::always_inline]] inline void end(QueuePair& qp, ibv_send_wr const& wr, std::uint32_t length,
                                       std::uint32_t position) noexcept {
  if (is_signaled(qp, wr) && !push_local(qp.sends(), end_of(qp, wr, wr.opcode, length, position)))
      [[unlikely]]
    break_sends(qp, false);
}

/// Whether a request of one piece may take the short way, as far as this side knows, but for
/// whether its peer is dead.
template <Source source>
[[gnu::always_inline]] inline bool may_start(QueuePair& qp, ibv_send_wr const& wr,
                                             std::uint32_t length,
                                             std::uint32_t outstanding) noexcept {
  auto const& piece = *wr.sg_list;
  auto& context = qp.owner();
  if (length == 0 || length > message_bytes_max || qp.stall.why != Stall::Why::none ||
      context.faults.are_planned() || outstanding >= qp.send_depth)
    return false;
  if constexpr (source == Source::any) return true;
  return (wr.send_flags & IBV_SEND_INLINE) != 0
             ? length <= qp.made_with.cap.max_inline_data
             : context.regions.permits(piece.lkey, qp.pd->handle, piece.addr, length, 0);
}

}  // namespace direct

/// Executes a send or a write of one piece, each with an immediate or without, on a reliable
/// connection that waits for nothing, to memory that is mapped here or by a completion: a subset of
/// what submit() does, in fewer steps. A send that finds no receive waits for it. False: nothing
/// was done but to write bytes that the request may write, of a posted receive or where it names
/// them; the general way tells why, or does it.
/// The caller holds send_lock.
template <direct::Source source = direct::Source::posted>
[[nodiscard, gnu::always_inline]] inline bool execute_directly(QueuePair& qp,
                                                               ibv_send_wr const& wr) noexcept {
  if (wr.num_sge != 1 || wr.opcode > direct::last_opcode ||
      (!qp.is_direct && !direct::begin_directly(qp)))
    return false;
  // Acquire pairs with poll_cq: a freed slot is read no more.
  auto const outstanding = qp.send_posted - qp.send_freed.load(std::memory_order_acquire);
  auto& peer = *qp.peer;
  auto const length = wr.sg_list->length;
  if (!direct::may_start<source>(qp, wr, length, outstanding) || peer.is_dead()) return false;
  auto& context = qp.owner();
  auto& target = *qp.target;
  if (!target.rx.try_lock(context.claimant)) return false;
  direct::Reached const to{qp, context,   peer,   *qp.known,     target,
                           wr, wr.opcode, length, peer.is_self()};
  auto const reach = direct::reach_target<direct::Rare::done, source>(to, outstanding);
  target.rx.unlock();
  if (reach != direct::Reach::done) [[unlikely]] {
    if (reach == direct::Reach::waits) direct::defer(qp, wr);
    return reach == direct::Reach::waits;
  }
  direct::end(qp, wr, length, qp.send_posted++);
  return true;
}

}  // namespace lend::soft
