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

/// The bytes that `key` of the target's domain opens with these rights, as this process sees them;
/// null if it does not, or they are not mapped.
[[gnu::always_inline]] inline std::byte* find_bytes(Reached const& to, std::uint32_t key,
                                                    std::uint64_t address,
                                                    unsigned access) noexcept {
  auto const& [qp, known, target, wr, length] = to;
  if (qp.peer->is_self())
    return qp.owner().regions.permits(key, known.domain, address, length, access)
               ? reinterpret_cast<std::byte*>(address)
               : nullptr;
  auto& segment = qp.peer->segment();
  auto const region = look_up_region(segment, key, known.domain, address, length, access);
  if (!region.is_granted || region.arena >= arenas_max) return nullptr;
  // Acquire pairs with the release in Arenas::add().
  auto const generation = segment.arenas[region.arena].generation.load(std::memory_order_acquire);
  if ((known.view == nullptr || known.arena != region.arena ||
       known.view->generation() != generation) &&
      !look_at(qp, region.arena)) [[unlikely]]
    return nullptr;
  auto const& mapping = known.view->mapping();
  if (region.place > mapping.length() || length > mapping.length() - region.place) return nullptr;
  return mapping.base() + region.place;
}

/// Whether the receive's piece may be written by the target's device.
[[gnu::always_inline]] inline bool may_receive(Reached const& to, std::uint32_t key,
                                               std::uint64_t address) noexcept {
  auto const& [qp, known, target, wr, length] = to;
  if (qp.peer->is_self())
    return qp.owner().regions.permits(key, known.domain, address, length, IBV_ACCESS_LOCAL_WRITE);
  return look_up_region(qp.peer->segment(), key, known.domain, address, length,
                        IBV_ACCESS_LOCAL_WRITE)
      .is_granted;
}

[[gnu::always_inline]] inline bool write(Reached const& to) noexcept {
  auto const& remote = to.wr.wr.rdma;
  if ((to.target.access.get() & IBV_ACCESS_REMOTE_WRITE) == 0) return false;
  KeyInUse const named{to.target, remote.rkey};
  auto* const bytes = find_bytes(to, remote.rkey, remote.remote_addr, IBV_ACCESS_REMOTE_WRITE);
  if (bytes == nullptr) return false;
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
[[gnu::always_inline]] inline bool complete(Reached const& to, Arrival const& arrival) noexcept {
  auto const& known = to.known;
  // Inlined, or what it captures would lie in memory.
  auto const fill = [&](SharedCompletion & slot) __attribute__((always_inline)) {
    slot.receiver.set(known.receiver);
    slot.receive.set(static_cast<std::uint32_t>(arrival.position));
    slot.length.set(to.length);
    slot.immediate.set(to.wr.imm_data);
    auto const inline_length = static_cast<std::uint8_t>(arrival.placed ? 0 : to.length);
    slot.how.set(ReceiveHow::of(IBV_WC_SUCCESS, arrival.kind, flags_of(to.wr), inline_length).word);
    if (arrival.placed) return;
    if (to.length != word_bytes) return write_bytes(known.queue, slot, to.source(), to.length);
    std::uint64_t word = 0;  // most often
    copy_few(reinterpret_cast<std::byte*>(&word), to.source(), word_bytes);
    slot.bytes[0].set(word);
  };
  if (!push_plain(known.queue, to.qp.owner().claimant, arrival.is_in_stream, fill) &&
      !push_all(to, arrival)) [[unlikely]]
    return false;
  // After the completion: if this process dies in between, no sender matches this receive again.
  to.target.receive_tail.store(arrival.position + 1, std::memory_order_relaxed);
  return true;
}

/// The caller holds rx of the target.
[[gnu::always_inline]] inline Reach reach_target(QueuePair& qp, ibv_send_wr const& wr,
                                                 std::uint32_t length,
                                                 std::uint32_t outstanding) noexcept {
  auto& target = *qp.target;
  Reached const to{qp, *qp.known, target, wr, length};
  // Acquire pairs with modify_qp: what RTR set is there. In RTR the first message is an event.
  if (target.state.load(std::memory_order_acquire) != IBV_QPS_RTS) return Reach::left;
  if (to.known.epoch != target.epoch.get() && !learn(qp)) return Reach::left;
  if (wr.opcode == IBV_WR_RDMA_WRITE) return write(to) ? Reach::done : Reach::left;
  auto const position = target.receive_tail.load(std::memory_order_relaxed);
  // Before the bytes are copied: without a receive none are.
  auto const& receives = to.known.receives;
  if (receives.base == nullptr) return Reach::left;
  auto const& posted = receives.at(position);
  // But for the last one of the ring.
  qp.expect_receive_at(reinterpret_cast<std::byte const*>(&posted) + receives.stride);
  if (!is_valid(posted, position)) [[unlikely]]
    return offer(to) ? Reach::waits : Reach::left;
  Arrival arrival{position, ReceiveKind::write_with_immediate, true, outstanding >= stream_depth};
  bool const is_placed = is_write(wr) ? write(to) : place_message(to, posted, arrival);
  return is_placed && complete(to, arrival) ? Reach::done : Reach::left;
}

}  // namespace direct

/// Executes a send or a write of one piece, each with an immediate or without, on a reliable
/// connection that waits for nothing, to memory that is mapped here or by a completion: a subset of
/// what submit() does, in fewer steps. A send that finds no receive waits for it. False: nothing
/// was done but to write bytes that the request may write, of a posted receive or where it names
/// them; the general way tells why, or does it.
/// The caller holds send_lock.
[[nodiscard, gnu::always_inline]] inline bool execute_directly(QueuePair& qp,
                                                               ibv_send_wr const& wr) noexcept {
  if (wr.num_sge != 1 || wr.opcode > direct::last_opcode) return false;
  auto const& piece = *wr.sg_list;
  auto const length = piece.length;
  auto& context = qp.owner();
  if (length == 0 || length > message_bytes_max || qp.stall.why != Stall::Why::none ||
      context.faults.are_planned())
    return false;
  // Acquire pairs with poll_cq: a freed slot is read no more.
  auto const outstanding = qp.send_posted - qp.send_freed.load(std::memory_order_acquire);
  if (outstanding >= qp.send_depth) return false;
  if (!qp.is_direct && !direct::begin_directly(qp)) [[unlikely]]
    return false;
  bool const is_ours =
      (wr.send_flags & IBV_SEND_INLINE) != 0
          ? length <= qp.made_with.cap.max_inline_data
          : context.regions.permits(piece.lkey, qp.pd->handle, piece.addr, length, 0);
  if (!is_ours || qp.peer->is_dead()) return false;
  auto& rx = qp.target->rx;
  if (!rx.try_lock(context.claimant)) return false;
  auto const reach = direct::reach_target(qp, wr, length, outstanding);
  rx.unlock();
  if (reach != direct::Reach::done) [[unlikely]] {
    if (reach == direct::Reach::waits) direct::defer(qp, wr);
    return reach == direct::Reach::waits;
  }
  auto const position = qp.send_posted++;
  if (((wr.send_flags | qp.flags) & IBV_SEND_SIGNALED) == 0) return true;
  auto const opcode = direct::is_write(wr) ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
  LocalCompletion const end{wr.wr_id, IBV_WC_SUCCESS, opcode, length, position, &qp};
  if (!push_local(qp.sends(), end)) [[unlikely]]
    break_sends(qp, false);
  return true;
}

}  // namespace lend::soft
