// SPDX-License-Identifier: MIT OR Apache-2.0
// What is rare on the short way.
#include <soft/engine/reached.hpp>

#include <soft/engine/engine.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/engine/unexpected.hpp>
#include <soft/memory/copy.hpp>
#include <soft/memory/extent.hpp>
#include <soft/memory/reach.hpp>
#include <soft/objects/context.hpp>
#include <soft/segment/receive_ring.hpp>

#include <algorithm>
#include <new>

namespace lend::soft::direct {
namespace {

/// A send, as the engine keeps it.
Work work_of(QueuePair const& qp, ibv_send_wr const& wr) noexcept {
  return {.id = wr.wr_id,
          .remote_address = 0,
          .remote_key = 0,
          .immediate = wr.imm_data,
          .position = qp.send_posted,
          .piece_count = 1,
          .opcode = static_cast<std::uint8_t>(wr.opcode),
          .flags = static_cast<std::uint8_t>(wr.send_flags | qp.flags),
          .pieces = wr.sg_list,
          .fault = nullptr,
          .atomic = {}};
}

}  // namespace

bool begin_directly(QueuePair& qp) noexcept {
  if (qp.qp_type != IBV_QPT_RC || qp.mode.load(std::memory_order_relaxed) != IBV_QPS_RTS)
    return false;
  if (qp.known == nullptr) qp.known.reset(new (std::nothrow) KnownTarget);
  return qp.is_direct = qp.known != nullptr;
}

bool learn(QueuePair& qp) noexcept {
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
  known.domain = target.domain.get();
  known.epoch = target.epoch.get();
  known.receiver = receiver_name(static_cast<std::uint32_t>(&target - segment.queue_pairs),
                                 static_cast<std::uint32_t>(known.epoch));
  return true;
}

bool look_at(QueuePair& qp, std::uint32_t arena) noexcept {
  qp.known->view.reset(qp.peer->pin(arena));
  qp.known->arena = arena;
  return qp.known->view != nullptr;
}

bool lies_apart(QueuePair& qp, std::uint32_t key, std::uint64_t address,
                std::uint32_t length) noexcept {
  if (length > SharedCompletion::inline_max || qp.peer->is_self()) return false;
  auto const region = look_up_region(qp.peer->segment(), key, qp.known->domain, address, length,
                                     IBV_ACCESS_LOCAL_WRITE);
  return region.is_granted && region.arena >= arenas_max;
}

void write_bytes(KnownQueue const& queue, SharedCompletion& slot, std::byte const* source,
                 std::uint32_t length) noexcept {
  std::uint64_t words[SharedCompletion::inline_max / word_bytes];
  copy_few(reinterpret_cast<std::byte*>(words), source, length);
  constexpr auto own_words = SharedCompletion::own_max / word_bytes;
  auto const count = (length + word_bytes - 1) / word_bytes;
  for (std::size_t i = 0; i < std::min(count, own_words); ++i) slot.bytes[i].set(words[i]);
  if (count <= own_words) return;
  auto& rest = rest_of(queue.ring, queue.mask, static_cast<std::uint64_t>(&slot - queue.ring));
  for (std::size_t i = own_words; i < count; ++i) rest.bytes[i - own_words].set(words[i]);
}

bool push_all(Reached to, Arrival arrival) noexcept {
  auto const& [qp, context, peer, known, target, wr, opcode, length, is_self] = to;
  ReceiveEnd end{};
  end.queue_pair = static_cast<std::uint32_t>(known.receiver);
  end.epoch = static_cast<std::uint32_t>(known.epoch);
  end.receive = static_cast<std::uint32_t>(arrival.position);
  end.length = length;
  end.immediate = wr.imm_data;
  end.status = IBV_WC_SUCCESS;
  end.kind = arrival.kind;
  end.flags = flags_of(opcode);
  end.is_solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  end.is_in_stream = arrival.is_in_stream;
  if (!arrival.placed) {
    end.inline_length = static_cast<std::uint8_t>(length);
    copy_few(reinterpret_cast<std::byte*>(end.bytes), to.source(), length);
  }
  bool const is_published = push_receive_end(peer.segment(), target.completion_queue.get(), end,
                                             context.claimant, peer.wake_pipes()) == Pushed::yes;
  // The next request learns where it grew.
  if (known.queue.queue->ring_mask.get() != known.queue.mask) known.epoch = KnownTarget::nothing;
  return is_published;
}

bool offer(Reached to) noexcept {
  auto const& [qp, context, peer, known, target, wr, opcode, length, is_self] = to;
  if (is_write(opcode) || qp.attributes.rnr_retry == 0 || known.receives.base == nullptr)
    return false;
  auto const position = target.receive_tail.load(std::memory_order_relaxed);
  if (is_valid(known.receives.at(position), position)) return false;
  Extents ours;
  ours.add(reinterpret_cast<std::byte*>(wr.sg_list->addr), length);
  offer_message(qp, work_of(qp, wr), ours, target);
  begin_waiting(qp, target.rnr_timer.get());
  return true;
}

void defer(QueuePair& qp, ibv_send_wr const& wr) noexcept {
  auto const work = work_of(qp, wr);
  ++qp.send_posted;
  soft::defer(qp, work);
}

}  // namespace lend::soft::direct
