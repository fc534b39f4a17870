// SPDX-License-Identifier: MIT OR Apache-2.0
// The responder's checks and stores for the most common requests, all in one place. Whatever is
// unusual is left to the general way (responder.cpp), before the target learns of it.
#include <soft/engine/direct.hpp>

#include <soft/engine/engine.hpp>
#include <soft/engine/request_at_target.hpp>
#include <soft/engine/taken_receive.hpp>
#include <soft/memory/copy.hpp>
#include <soft/memory/reach.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/segment/completion_ring.hpp>
#include <soft/segment/receive_ring.hpp>

#include <mutex>
#include <new>

namespace lend::soft {
namespace {

// The writes and sends, without and with an immediate, are all up to this one.
constexpr auto last_direct = IBV_WR_SEND_WITH_IMM;
static_assert(IBV_WR_RDMA_WRITE == 0 && IBV_WR_RDMA_WRITE_WITH_IMM == 1 && IBV_WR_SEND == 2 &&
              last_direct == 3);
bool is_write(ibv_send_wr const& wr) noexcept {
  return wr.opcode <= IBV_WR_RDMA_WRITE_WITH_IMM;
}

/// Looks at the target, whose rx is held. False: it does not listen to us, or says nonsense.
[[gnu::noinline]] bool learn(QueuePair& qp) noexcept {
  auto& known = *qp.known;
  auto& segment = qp.peer->segment();
  auto const& target = *qp.target;
  known.epoch = KnownTarget::nothing;
  if (target.type.get() != IBV_QPT_RC || target.remote_number.get() != qp.qp_num ||
      target.remote_instance.get() != qp.owner().claimant.instance ||
      target.receive_psn.get() != qp.attributes.sq_psn)
    return false;
  known.queue = know_queue(segment, target.completion_queue.get());
  if (known.queue.ring == nullptr) return false;
  known.receives = {nullptr, 0, 0};
  if (target.pool.get() == 0) known.receives = receive_ring_of(segment, target);
  known.number = static_cast<std::uint32_t>(&target - segment.queue_pairs);
  known.domain = target.domain.get();
  known.epoch = target.epoch.get();
  return true;
}

[[gnu::noinline]] bool look_at(QueuePair& qp, std::uint32_t arena) noexcept {
  qp.known->view.reset(qp.peer->pin(arena));
  qp.known->arena = arena;
  return qp.known->view != nullptr;
}

/// The bytes that `key` of the target's domain opens with these rights, as this process sees them;
/// null if it does not, or they are not mapped. The caller holds rx of the target.
[[gnu::always_inline]] inline std::byte* find_bytes(QueuePair& qp, std::uint32_t key,
                                                    std::uint64_t address, std::uint32_t length,
                                                    unsigned access) noexcept {
  auto& known = *qp.known;
  auto& segment = qp.peer->segment();
  if (qp.peer->is_self())
    return qp.owner().regions.permits(key, known.domain, address, length, access)
               ? reinterpret_cast<std::byte*>(address)
               : nullptr;
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
[[gnu::always_inline]] inline bool may_receive(QueuePair& qp, std::uint32_t key,
                                               std::uint64_t address,
                                               std::uint32_t length) noexcept {
  auto const domain = qp.known->domain;
  if (qp.peer->is_self())
    return qp.owner().regions.permits(key, domain, address, length, IBV_ACCESS_LOCAL_WRITE);
  return look_up_region(qp.peer->segment(), key, domain, address, length, IBV_ACCESS_LOCAL_WRITE)
      .is_granted;
}

/// Whether it may, only cross-memory attach reaches the memory, and the bytes have room in a
/// completion.
[[gnu::noinline]] bool lies_apart(QueuePair& qp, std::uint32_t key, std::uint64_t address,
                                  std::uint32_t length) noexcept {
  if (length > SharedCompletion::inline_max || qp.peer->is_self() || !qp.peer->has_cross_memory())
    return false;
  auto const region = look_up_region(qp.peer->segment(), key, qp.known->domain, address, length,
                                     IBV_ACCESS_LOCAL_WRITE);
  return region.is_granted && region.arena >= arenas_max;
}

/// The caller holds rx of the target, and knows it.
[[gnu::always_inline]] inline bool write_directly(QueuePair& qp, ibv_send_wr const& wr) noexcept {
  if ((qp.target->access.get() & IBV_ACCESS_REMOTE_WRITE) == 0) return false;
  auto const& piece = *wr.sg_list;
  KeyInUse const named{*qp.target, wr.wr.rdma.rkey};
  auto* const to = find_bytes(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, piece.length,
                              IBV_ACCESS_REMOTE_WRITE);
  if (to == nullptr) return false;
  copy_in_order(to, reinterpret_cast<std::byte const*>(piece.addr), piece.length);
  return true;
}

/// The bytes of a completion beyond those in itself.
[[gnu::noinline]] void write_rest(KnownQueue const& queue, SharedCompletion const& slot,
                                  std::uint64_t const* words, std::uint32_t length) noexcept {
  auto& rest = rest_of(queue.ring, queue.mask, static_cast<std::uint64_t>(&slot - queue.ring));
  constexpr auto own_words = SharedCompletion::own_max / word_bytes;
  for (std::size_t i = own_words; i * word_bytes < length; ++i)
    rest.bytes[i - own_words].set(words[i]);
}

/// The completion of a receive at the target. `placed`: the bytes are in memory, else in it.
struct Arrival {
  std::uint64_t position;
  ReceiveKind kind;
  bool placed;
  bool is_in_stream;
};

[[gnu::always_inline]] inline std::uint8_t flags_of(ibv_send_wr const& wr) noexcept {
  return wr.opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM;
}

/// Publishes what push_plain() left: once a message has come in, it is completed, whatever happens
/// to its receiver meanwhile.
[[gnu::noinline]] bool push_all(QueuePair& qp, ibv_send_wr const& wr,
                                Arrival const& arrival) noexcept {
  auto const& piece = *wr.sg_list;
  ReceiveEnd end{};
  end.queue_pair = qp.known->number;
  end.epoch = static_cast<std::uint32_t>(qp.known->epoch);
  end.receive = static_cast<std::uint32_t>(arrival.position);
  end.length = piece.length;
  end.immediate = wr.imm_data;
  end.status = IBV_WC_SUCCESS;
  end.kind = arrival.kind;
  end.flags = flags_of(wr);
  end.is_solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  end.is_in_stream = arrival.is_in_stream;
  if (!arrival.placed) {
    end.inline_length = static_cast<std::uint8_t>(piece.length);
    copy_few(reinterpret_cast<std::byte*>(end.bytes),
             reinterpret_cast<std::byte const*>(piece.addr), piece.length);
  }
  return push_receive_end(qp.peer->segment(), qp.target->completion_queue.get(), end,
                          qp.owner().claimant, qp.peer->wakers()) == Pushed::yes;
}

/// The target's next receive. Null: there is none, or this is for the general way. The caller holds
/// rx of the target.
[[gnu::always_inline]] inline SharedReceive const* find_receive(QueuePair& qp,
                                                                std::uint64_t position) noexcept {
  auto const& known = *qp.known;
  if (!known.queue.is_current() && !learn(qp)) [[unlikely]]
    return nullptr;
  if (known.receives.base == nullptr || known.queue.queue->notify.get() != 0) return nullptr;
  auto const& posted = known.receives.at(position);
  qp.next_receive.store(&known.receives.at(position + 1), std::memory_order_relaxed);
  return is_valid(posted, position) ? &posted : nullptr;
}

/// Completes the receive that find_receive() found.
[[gnu::always_inline]] inline bool complete(QueuePair& qp, ibv_send_wr const& wr,
                                            Arrival const& arrival) noexcept {
  auto& known = *qp.known;
  auto const& piece = *wr.sg_list;
  auto const length = piece.length;
  auto const write = [&](SharedCompletion& slot) {
    slot.queue_pair.set(known.number);
    slot.epoch.set(static_cast<std::uint32_t>(known.epoch));
    slot.receive.set(static_cast<std::uint32_t>(arrival.position));
    slot.length.set(length);
    slot.immediate.set(wr.imm_data);
    slot.status.set(IBV_WC_SUCCESS);
    slot.kind.set(static_cast<std::uint8_t>(arrival.kind));
    slot.flags.set(flags_of(wr));
    slot.inline_length.set(static_cast<std::uint8_t>(arrival.placed ? 0 : length));
    if (arrival.placed) return;
    std::uint64_t words[SharedCompletion::inline_max / word_bytes];
    copy_few(reinterpret_cast<std::byte*>(words), reinterpret_cast<std::byte const*>(piece.addr),
             length);
    bool const is_wide = arrival.kind == ReceiveKind::wide;
    auto const in_slot = is_wide ? SharedCompletion::own_max : length;
    for (unsigned i = 0; i * word_bytes < in_slot; ++i) slot.bytes[i].set(words[i]);
    if (is_wide) [[unlikely]]
      write_rest(known.queue, slot, words, length);
  };
  if (!push_plain(known.queue, qp.owner().claimant, arrival.is_in_stream, write) &&
      !push_all(qp, wr, arrival)) [[unlikely]]
    return false;
  // After the completion: if this process dies in between, no sender matches this receive again.
  qp.target->receive_tail.store(arrival.position + 1, std::memory_order_relaxed);
  return true;
}

/// Brings a message to the receive `posted`, or leaves it to the completion, as `arrival` says.
[[gnu::always_inline]] inline bool place_message(QueuePair& qp, ibv_send_wr const& wr,
                                                 SharedReceive const& posted,
                                                 Arrival& arrival) noexcept {
  auto const& piece = *wr.sg_list;
  auto const length = piece.length;
  if (posted.piece_count.get() == 0) return false;
  auto const& into = posted.pieces[0];
  if (into.length.get() < length) return false;
  auto const key = into.key.get();
  auto const address = into.address.get();
  bool const is_small = length <= SharedCompletion::own_max;
  auto* const to =
      is_small ? nullptr : find_bytes(qp, key, address, length, IBV_ACCESS_LOCAL_WRITE);
  arrival.placed = to != nullptr;
  arrival.kind = to == nullptr && !is_small ? ReceiveKind::wide : ReceiveKind::send;
  if (to != nullptr) {
    copy_in_order(to, reinterpret_cast<std::byte const*>(piece.addr), length);
    return true;
  }
  return is_small ? may_receive(qp, key, address, length) : lies_apart(qp, key, address, length);
}

/// Takes rx of the target.
[[gnu::always_inline]] inline bool reach_target(QueuePair& qp, ibv_send_wr const& wr,
                                                std::uint32_t outstanding) noexcept {
  auto& target = *qp.target;
  if (!target.rx.try_lock(qp.owner().claimant)) return false;
  RobustGuard const guard{target.rx, std::adopt_lock};
  // Acquire pairs with modify_qp: what RTR set is there. In RTR the first message is an event.
  if (target.state.load(std::memory_order_acquire) != IBV_QPS_RTS) return false;
  if (qp.known->epoch != target.epoch.get() && !learn(qp)) return false;
  bool const takes_receive = wr.opcode != IBV_WR_RDMA_WRITE;
  auto const position = target.receive_tail.load(std::memory_order_relaxed);
  // Before the bytes are copied: without a receive none are.
  auto const* const posted = takes_receive ? find_receive(qp, position) : nullptr;
  if (takes_receive && posted == nullptr) return false;
  Arrival arrival{position, ReceiveKind::write_with_immediate, true, outstanding >= stream_depth};
  if (is_write(wr) ? !write_directly(qp, wr) : !place_message(qp, wr, *posted, arrival))
    return false;
  return !takes_receive || complete(qp, wr, arrival);
}

}  // namespace

bool execute_directly(QueuePair& qp, ibv_send_wr const& wr) noexcept {
  if (wr.num_sge != 1 || wr.opcode > last_direct) return false;
  auto const& piece = *wr.sg_list;
  auto& context = qp.owner();
  if (piece.length == 0 || piece.length > message_bytes_max || qp.qp_type != IBV_QPT_RC ||
      qp.mode.load(std::memory_order_relaxed) != IBV_QPS_RTS || qp.stall.why != Stall::Why::none ||
      context.faults.are_planned())
    return false;
  // Acquire pairs with poll_cq: a freed slot is read no more.
  auto const outstanding = qp.send_posted - qp.send_freed.load(std::memory_order_acquire);
  if (outstanding >= qp.send_depth) return false;
  if (qp.is_target_apart && piece.length > SharedCompletion::inline_max && !is_write(wr))
    return false;
  if (qp.known == nullptr) [[unlikely]] {  // the first time: an idle queue pair stays small
    qp.known.reset(new (std::nothrow) KnownTarget);
    if (qp.known == nullptr) return false;
  }
  bool const is_ours =
      (wr.send_flags & IBV_SEND_INLINE) != 0
          ? piece.length <= qp.made_with.cap.max_inline_data
          : context.regions.permits(piece.lkey, qp.pd->handle, piece.addr, piece.length, 0);
  if (!is_ours || qp.peer->is_dead() || !reach_target(qp, wr, outstanding)) return false;
  auto const position = qp.send_posted++;
  if (((wr.send_flags | qp.flags) & IBV_SEND_SIGNALED) == 0) return true;
  auto const opcode = is_write(wr) ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
  if (!push_local(qp.sends(), {&qp, wr.wr_id, position, piece.length, 0, IBV_WC_SUCCESS,
                               static_cast<std::uint8_t>(opcode)})) [[unlikely]]
    break_sends(qp, false);
  return true;
}

}  // namespace lend::soft
