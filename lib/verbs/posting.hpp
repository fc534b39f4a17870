// SPDX-License-Identifier: MIT OR Apache-2.0
// From a request of lend to one of verbs: checked, described, posted. The only caller of
// ibv_post_send and ibv_post_recv. Inline, since a call costs as much as a tenth of a post. One
// thread at a time per queue pair.
#pragma once

#include <lend/base/error.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/handles.hpp>
#include <verbs/loan_row.hpp>
#include <verbs/post_refusal.hpp>
#include <verbs/verb_error.hpp>
#include <verbs/work_kind.hpp>

#include <endian.h>
#include <cstdint>
#include <span>

namespace lend::verbs {

/// Puts an element at `target`, behind those of `before`, and lends it.
template <class Element>
[[nodiscard, gnu::always_inline]] inline Resolved resolve_one(QueuePairHandle const& queue_pair,
                                                              Element const& element,
                                                              ibv_sge* target, Resolved before,
                                                              LoanRow& loans,
                                                              Operation operation) noexcept {
  RegionState const* const region = element.region;
  if (region == nullptr) [[unlikely]]
    return {.refusal = PostRefusal::outside_region};
  if (region->protection_domain != queue_pair.protection_domain) [[unlikely]]
    return {.refusal = PostRefusal::other_domain};
  if (!region->contains(element.range)) [[unlikely]]
    return {.refusal = PostRefusal::outside_region};
  if (!lend_element(loans, element, operation)) [[unlikely]]
    return {.refusal = PostRefusal::on_loan};
  ibv_sge& entry = target[before.count];
  entry.addr = reinterpret_cast<std::uintptr_t>(region->address + element.range.offset);
  // Narrows only where resolve() refuses the bytes: message_bytes_max fits in 32 bits.
  entry.length = static_cast<std::uint32_t>(element.range.length);
  entry.lkey = region->local_key;
  // Cannot wrap: 32 regions fit in the address space.
  return {before.bytes + element.range.length, before.count + (element.range.length != 0 ? 1 : 0)};
}

/// Of none, or of several. Out of line: a loop around what resolve_one() has inline would cost even
/// one element ten instructions. With a copy of `loans`, or that of one would not stay in
/// registers.
template <class Element>
[[nodiscard, gnu::noinline]] Resolved resolve_several(QueuePairHandle const& queue_pair,
                                                      std::span<Element const> elements,
                                                      bool may_be_empty, ibv_sge* target,
                                                      LoanRow loans, Operation operation) noexcept {
  if (elements.empty())
    return {.refusal = may_be_empty ? PostRefusal::none : PostRefusal::empty_list};
  if (elements.size() > queue_pair.elements) return {.refusal = PostRefusal::too_many_elements};
  Resolved resolved;
  for (Element const& element : elements) {
    resolved = resolve_one(queue_pair, element, target, resolved, loans, operation);
    if (resolved.is_refused()) {
      resolved.count = static_cast<int>(&element - elements.data());
      break;
    }
  }
  return resolved;
}

/// Fills `target`, which has room for elements_max. No list is longer than `elements` of the queue
/// pair, which is 1 to that; one of no elements must be allowed.
template <class Work>
[[nodiscard, gnu::always_inline]] inline Resolved resolve(QueuePairHandle const& queue_pair,
                                                          Work const& work, bool may_be_empty,
                                                          ibv_sge* target,
                                                          LoanRow& loans) noexcept {
  constexpr Operation operation = operation_of<Work>;
  auto const elements = list_of(work).elements();
  Resolved const resolved =
      elements.size() == 1
          ? resolve_one(queue_pair, elements.front(), target, {}, loans, operation)
          : resolve_several(queue_pair, elements, may_be_empty, target, loans, operation);
  if (resolved.bytes > queue_pair.message_bytes_max) [[unlikely]]
    return {.bytes = resolved.bytes, .refusal = PostRefusal::too_long};
  return resolved;
}

// Set field by field: value-initialising the 128 bytes costs more than the rest of a post.
// Source: measured, 8 to 9 ns with g++ 12 -O2, which emits `rep stos`.
[[gnu::always_inline]] inline void fill(QueuePairHandle const& queue_pair, ibv_send_wr& request,
                                        std::uint64_t id, ibv_sge* elements, Resolved resolved,
                                        ibv_wr_opcode opcode, bool may_inline) noexcept {
  // 0 bytes are never inlined: a queue pair without inline room refuses the flag itself.
  bool const is_inlined = may_inline && resolved.bytes - 1 < queue_pair.inline_bytes;
  request.wr_id = id;
  request.next = nullptr;
  request.sg_list = elements;
  request.num_sge = resolved.count;
  request.opcode = opcode;
  // Signaled, so that every failure and every free slot is seen; a chain may do with fewer.
  request.send_flags = IBV_SEND_SIGNALED | (is_inlined ? unsigned{IBV_SEND_INLINE} : 0u);
}

/// The same against the peer's memory: whether it is there, and as long.
[[nodiscard, gnu::always_inline]] inline PostRefusal refusal_of(RemoteSlice const& remote,
                                                                std::uint64_t bytes) noexcept {
  if (!remote.in_bounds) [[unlikely]]
    return PostRefusal::outside_remote;
  if (bytes != remote.length) [[unlikely]]
    return PostRefusal::lengths_differ;
  return PostRefusal::none;
}

// From work to a request of its own, whose bytes are lent. `elements` must stay until it is posted.

[[gnu::always_inline]] inline Resolved describe(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                Send const& work, ibv_send_wr& request,
                                                ibv_sge* elements, LoanRow& loans) noexcept {
  auto const resolved = resolve(queue_pair, work, work.immediate.has_value(), elements, loans);
  if (resolved.is_refused()) [[unlikely]]
    return resolved;
  // Always: drivers copy it unasked.
  request.imm_data = htobe32(work.immediate.value_or(0));
  fill(queue_pair, request, id, elements, resolved,
       work.immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, true);
  return resolved;
}

[[gnu::always_inline]] inline Resolved describe(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                Write const& work, ibv_send_wr& request,
                                                ibv_sge* elements, LoanRow& loans) noexcept {
  auto const resolved = resolve(queue_pair, work, work.immediate.has_value(), elements, loans);
  if (resolved.is_refused()) [[unlikely]]
    return resolved;
  if (auto const refusal = refusal_of(work.target, resolved.bytes); refusal != PostRefusal::none)
      [[unlikely]]
    return {.bytes = resolved.bytes, .refusal = refusal};
  // Always: drivers copy it unasked.
  request.imm_data = htobe32(work.immediate.value_or(0));
  request.wr.rdma.remote_addr = work.target.address;
  request.wr.rdma.rkey = work.target.key;
  fill(queue_pair, request, id, elements, resolved,
       work.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, true);
  return resolved;
}

[[gnu::always_inline]] inline Resolved describe(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                Read const& work, ibv_send_wr& request,
                                                ibv_sge* elements, LoanRow& loans) noexcept {
  auto const resolved = resolve(queue_pair, work, false, elements, loans);
  if (resolved.is_refused()) [[unlikely]]
    return resolved;
  if (auto const refusal = refusal_of(work.source, resolved.bytes); refusal != PostRefusal::none)
      [[unlikely]]
    return {.bytes = resolved.bytes, .refusal = refusal};
  request.wr.rdma.remote_addr = work.source.address;
  request.wr.rdma.rkey = work.source.key;
  fill(queue_pair, request, id, elements, resolved, IBV_WR_RDMA_READ, false);
  return resolved;
}

[[gnu::always_inline]] inline Resolved describe(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                Receive const& work, ibv_recv_wr& request,
                                                ibv_sge* elements, LoanRow& loans) noexcept {
  auto const resolved = resolve(queue_pair, work, work.allow_empty, elements, loans);
  if (resolved.is_refused()) [[unlikely]]
    return resolved;
  request.wr_id = id;
  request.next = nullptr;
  request.sg_list = elements;
  request.num_sge = resolved.count;
  return resolved;
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

/// Lends the bytes of `work`, and posts it. What is refused may have loans in its row.
template <class Work>
[[gnu::always_inline]] inline PostAnswer try_post(QueuePairHandle const& queue_pair,
                                                  std::uint64_t id, Work const& work,
                                                  LoanRow loans) noexcept {
  ibv_sge elements[elements_max];
  RequestOf<Work> request;
  auto const resolved = describe(queue_pair, id, work, request, elements, loans);
  if (resolved.is_refused()) [[unlikely]]
    return PostAnswer::of(resolved);
  RequestOf<Work>* refused = nullptr;
  int const result = post_chain(queue_pair, request, refused);
  if (result != 0) [[unlikely]]
    return {resolved.bytes, errno_of(result),
            refused != nullptr ? PostRefusal::by_device : PostRefusal::unclear};
  return {.bytes = resolved.bytes};
}

/// Why the device did not take a request of `operation`.
[[nodiscard]] Error device_refused(QueuePairHandle const& queue_pair, Operation operation,
                                   int errno_value) noexcept;
/// The device does not say whether it took the request, as when rxe's doorbell fails; that counts
/// as posted until it is aborted. Source: rdma-core providers/rxe/rxe.c, rxe_post_send().
[[nodiscard]] Error device_unclear(QueuePairHandle const& queue_pair, Operation operation,
                                   int errno_value) noexcept;

/// Why `work` was not posted. Of loans, `conflict` says.
[[nodiscard]] Error refusal_error(QueuePairHandle const& queue_pair, Send const& work,
                                  PostAnswer answer, Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(QueuePairHandle const& queue_pair, Write const& work,
                                  PostAnswer answer, Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(QueuePairHandle const& queue_pair, Read const& work,
                                  PostAnswer answer, Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(QueuePairHandle const& queue_pair, Receive const& work,
                                  PostAnswer answer, Error const& conflict) noexcept;

}  // namespace lend::verbs
