// SPDX-License-Identifier: MIT OR Apache-2.0
// The fields of a request of verbs, and its post. The only caller of ibv_post_send, ibv_post_recv
// and ibv_post_srq_recv. Inline, since a call costs as much as a tenth of a post. One thread at a
// time per queue pair and shared receive queue.
#pragma once

#include <lend/verbs/work_kind.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/region_state.hpp>
#include <verbs/post/destination.hpp>
#include <verbs/post/post_refusal.hpp>

#include <endian.h>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace lend::verbs {

/// The form of work in verbs, which tells its queue.
template <class Work>
using RequestOf =
    std::conditional_t<operation_of<Work> == Operation::receive, ibv_recv_wr, ibv_send_wr>;

/// Whether so many bytes, which leave this side, are copied when they are posted. Not 0 bytes: a
/// queue pair without inline room refuses the flag itself.
[[nodiscard, gnu::always_inline]] inline bool are_copied(QueuePairHandle const& queue_pair,
                                                         std::uint64_t bytes) noexcept {
  return bytes - 1 < queue_pair.inline_bytes;
}
/// Source: ibv_post_send(3): the bytes of an inline request may be used again once it is posted.
[[nodiscard, gnu::always_inline]] inline bool is_copied(ibv_send_wr const& request) noexcept {
  return (request.send_flags & IBV_SEND_INLINE) != 0;
}
[[nodiscard, gnu::always_inline]] inline bool is_copied(ibv_recv_wr const&) noexcept {
  return false;
}

/// Whether it takes a receive of the peer.
[[nodiscard]] inline bool is_message(ibv_send_wr const& request) noexcept {
  return request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_SEND_WITH_IMM ||
         request.opcode == IBV_WR_SEND_WITH_INV || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
[[nodiscard]] inline bool is_message(ibv_recv_wr const&) noexcept {
  return false;
}

/// Signaled, so that every failure and every free slot is seen; a chain may do with fewer.
[[nodiscard, gnu::always_inline]] inline unsigned flags_for(bool is_copied) noexcept {
  return IBV_SEND_SIGNALED | (is_copied ? unsigned{IBV_SEND_INLINE} : 0u);
}

// Set field by field: value-initialising the 128 bytes costs more than the rest of a post.
// Source: measured, 8 to 9 ns with g++ 12 -O2, which emits `rep stos`.
[[gnu::always_inline]] inline void fill(QueuePairHandle const& queue_pair, ibv_send_wr& request,
                                        std::uint64_t id, ibv_sge* elements, Resolved resolved,
                                        ibv_wr_opcode opcode, bool may_inline) noexcept {
  request.wr_id = id;
  request.next = nullptr;
  request.sg_list = elements;
  request.num_sge = resolved.count;
  request.opcode = opcode;
  request.send_flags = flags_for(may_inline && are_copied(queue_pair, resolved.bytes));
}

// From work to the fields of its request. `elements` must stay until it is posted.

[[gnu::always_inline]] inline void fill_for(QueuePairHandle const& queue_pair, Send const& work,
                                            std::optional<std::uint32_t> immediate,
                                            std::uint64_t id, ibv_sge* elements, Resolved resolved,
                                            ibv_send_wr& request) noexcept {
  if (has(work.options, RequestOption::returning)) {
    request.invalidate_rkey = work.returned_key;
    return fill(queue_pair, request, id, elements, resolved, IBV_WR_SEND_WITH_INV, true);
  }
  // Always: drivers copy it unasked.
  request.imm_data = htobe32(immediate.value_or(0));
  fill(queue_pair, request, id, elements, resolved, immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
       true);
}

[[gnu::always_inline]] inline void fill_for(QueuePairHandle const& queue_pair, Write const& work,
                                            std::optional<std::uint32_t> immediate,
                                            std::uint64_t id, ibv_sge* elements, Resolved resolved,
                                            ibv_send_wr& request) noexcept {
  // Always: drivers copy it unasked.
  request.imm_data = htobe32(immediate.value_or(0));
  request.wr.rdma.remote_addr = work.target.address;
  request.wr.rdma.rkey = work.target.key;
  fill(queue_pair, request, id, elements, resolved,
       immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, true);
}

[[gnu::always_inline]] inline void fill_for(QueuePairHandle const& queue_pair, Read const& work,
                                            std::optional<std::uint32_t>, std::uint64_t id,
                                            ibv_sge* elements, Resolved resolved,
                                            ibv_send_wr& request) noexcept {
  request.wr.rdma.remote_addr = work.source.address;
  request.wr.rdma.rkey = work.source.key;
  fill(queue_pair, request, id, elements, resolved, IBV_WR_RDMA_READ, false);
}

[[nodiscard, gnu::always_inline]] inline ibv_wr_opcode opcode_of(
    AtomicChange const& change) noexcept {
  using Kind = AtomicChange::Kind;
  static_assert(static_cast<int>(Kind::compare_swap) == 0 &&
                static_cast<int>(Kind::fetch_add) == 1);
  static_assert(IBV_WR_ATOMIC_FETCH_AND_ADD == IBV_WR_ATOMIC_CMP_AND_SWP + 1);
  return static_cast<ibv_wr_opcode>(IBV_WR_ATOMIC_CMP_AND_SWP + static_cast<int>(change.kind));
}
[[gnu::always_inline]] inline void fill_change(ibv_send_wr& request,
                                               AtomicChange const& change) noexcept {
  request.wr.atomic = {change.word.address, change.compare_or_add, change.swap, change.word.key};
}
[[gnu::always_inline]] inline void fill_for(QueuePairHandle const& queue_pair, Atomic const& work,
                                            std::optional<std::uint32_t>, std::uint64_t id,
                                            ibv_sge* elements, Resolved resolved,
                                            ibv_send_wr& request) noexcept {
  fill(queue_pair, request, id, elements, resolved, opcode_of(work.change), false);
  fill_change(request, work.change);
}

[[gnu::always_inline]] inline void address_to(DestinationHandle const& there,
                                              ibv_send_wr& request) noexcept {
  request.wr.ud = {there.raw.get(), there.queue_pair_number, there.queue_key};
}
[[gnu::always_inline]] inline void fill_for(QueuePairHandle const& queue_pair,
                                            AddressedSend const& work,
                                            std::optional<std::uint32_t> immediate,
                                            std::uint64_t id, ibv_sge* elements, Resolved resolved,
                                            ibv_send_wr& request) noexcept {
  address_to(*DestinationAccess::handle_of(*work.to), request);
  request.imm_data = htobe32(immediate.value_or(0));
  fill(queue_pair, request, id, elements, resolved, immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
       true);
}
/// Whether a datagram of `bytes` can go there from `queue_pair`; none: it can.
[[nodiscard, gnu::always_inline]] inline PostRefusal destination_refusal(
    QueuePairHandle const& queue_pair, Destination const& to, std::uint64_t bytes) noexcept {
  auto const& there = DestinationAccess::handle_of(to);
  if (!there) return PostRefusal::no_destination;
  if (there->domain != queue_pair.domain) return PostRefusal::foreign_destination;
  // The limit of a post holds for rooms, too, which are longer than their datagrams.
  if (bytes > queue_pair.local.mtu_bytes) return PostRefusal::too_long_for_a_packet;
  return PostRefusal::none;
}

/// Whether `result`, of a good region, is 8 aligned bytes.
[[nodiscard, gnu::always_inline]] inline bool is_word(ScatterElement const& result) noexcept {
  auto const start = reinterpret_cast<std::uintptr_t>(result.region->address);
  return result.range.length == RemoteWord::size &&
         (start + result.range.offset) % RemoteWord::size == 0;
}
/// Why an atomic operation whose result is in good regions is refused, or none.
[[nodiscard]] inline PostRefusal atomic_refusal(RequestQueue const& queue,
                                                Atomic const& work) noexcept {
  if (!queue.has_atomics) return PostRefusal::no_atomics;
  RemoteWord const& word = work.change.word;
  if (word.access == RemoteAccess{}) return PostRefusal::outside_remote;
  if (!permits(word.access, RemoteAccess::atomic)) return PostRefusal::no_access;
  if (word.address % RemoteWord::size != 0) return PostRefusal::off_word;
  auto const elements = work.result.elements();
  bool const is_good = elements.size() == 1 && is_word(elements[0]);
  return is_good ? PostRefusal::none : PostRefusal::bad_result;
}

/// Of a Receive or a RoomReceive.
template <class Work>
[[gnu::always_inline]] inline void fill_for(RequestQueue const&, Work const&,
                                            std::optional<std::uint32_t>, std::uint64_t id,
                                            ibv_sge* elements, Resolved resolved,
                                            ibv_recv_wr& request) noexcept {
  request.wr_id = id;
  request.next = nullptr;
  request.sg_list = elements;
  request.num_sge = resolved.count;
}

/// Posts a chain of requests. 0, or as ibv_post_send(3) answers; then `refused` is the first that
/// was not posted.
[[gnu::always_inline]] inline int post_chain(QueuePairHandle const& queue_pair, ibv_send_wr& first,
                                             ibv_send_wr*& refused) noexcept {
  return ibv_post_send(queue_pair.raw.get(), &first, &refused);
}
[[gnu::always_inline]] inline int post_chain(QueuePairHandle const& queue_pair, ibv_recv_wr& first,
                                             ibv_recv_wr*& refused) noexcept {
  return ibv_post_recv(queue_pair.raw.get(), &first, &refused);
}
[[gnu::always_inline]] inline int post_chain(ReceiveQueueHandle const& queue, ibv_recv_wr& first,
                                             ibv_recv_wr*& refused) noexcept {
  return ibv_post_srq_recv(queue.raw.get(), &first, &refused);
}

/// Whether its device executes writes of any bytes, where it can.
[[nodiscard]] inline bool may_write_at_once(QueuePairHandle const& queue_pair) noexcept {
  return queue_pair.raw.provider().write_at_once != nullptr;
}
/// Whether it has executed this one, as Provider::write_at_once.
/// Shape:   may_write_at_once(), asked before any fork().
[[nodiscard]] inline bool write_at_once(QueuePairHandle const& queue_pair,
                                        ibv_send_wr const& request) noexcept {
  return queue_pair.raw.provider().write_at_once(queue_pair.raw.get(), request);
}

/// What an answer of post_chain() other than 0 to one request of `bytes` means.
[[nodiscard]] inline PostAnswer device_answer(std::uint64_t bytes, int result,
                                              void const* refused) noexcept {
  return {bytes, errno_of(result),
          refused != nullptr ? PostRefusal::by_device : PostRefusal::unclear};
}

}  // namespace lend::verbs
