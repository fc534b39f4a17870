// SPDX-License-Identifier: MIT OR Apache-2.0
// From any request of lend to one of verbs: checked, described, posted; and why it was not. Most
// requests take the shorter way of plain_work.hpp. One thread at a time per queue pair.
#pragma once

#include <lend/base/error.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/loan_row.hpp>
#include <verbs/post/request.hpp>

#include <cstdint>
#include <span>
#include <type_traits>

namespace lend::verbs {

/// Puts an element at `target`, behind those of `before`, and lends it.
template <class Element>
[[nodiscard]] Resolved resolve_one(RequestQueue const& queue, Element const& element,
                                   ibv_sge* target, Resolved before, LoanRow& loans,
                                   Operation operation) noexcept {
  RegionState const* const region = element.region;
  if (region == nullptr) return {.refusal = PostRefusal::outside_region};
  if (region->domain != queue.domain) return {.refusal = PostRefusal::other_domain};
  if (!region->contains(element.range)) return {.refusal = PostRefusal::outside_region};
  if (!lend_element(loans, element, operation)) return {.refusal = PostRefusal::on_loan};
  // Narrows only where resolve() refuses the bytes: message_bytes_max fits in 32 bits.
  fill_element(target[before.count], *region, element.range);
  // Cannot wrap: 32 regions fit in the address space.
  return {before.bytes + element.range.length, before.count + (element.range.length != 0 ? 1 : 0)};
}

/// Maximum elements of one request.
template <class Work>
[[nodiscard]] std::uint32_t elements_of(RequestQueue const& queue) noexcept {
  return operation_of<Work> == Operation::receive ? queue.receive_elements : queue.elements;
}

/// Fills `target`, which has room for elements_max. No list is longer than elements_of() the queue,
/// which is 1 to that; one of no elements must be allowed.
template <class Work>
[[nodiscard]] Resolved resolve(RequestQueue const& queue, Work const& work, ibv_sge* target,
                               LoanRow& loans) noexcept {
  auto const elements = list_of(work).elements();
  if (elements.empty())
    return {.refusal = may_be_empty(work) ? PostRefusal::none : PostRefusal::empty_list};
  if (elements.size() > elements_of<Work>(queue))
    return {.refusal = PostRefusal::too_many_elements};
  Resolved resolved;
  for (auto const& element : elements) {
    resolved = resolve_one(queue, element, target, resolved, loans, operation_of<Work>);
    if (resolved.is_refused()) {
      resolved.count = static_cast<int>(&element - elements.data());
      return resolved;
    }
  }
  if (resolved.bytes > queue.message_bytes_max)
    return {.bytes = resolved.bytes, .refusal = PostRefusal::too_long};
  return resolved;
}

/// As IBV_SEND_….
[[nodiscard]] inline unsigned option_flags(RequestOption options) noexcept {
  return (has(options, RequestOption::fenced) ? unsigned{IBV_SEND_FENCE} : 0u) |
         (has(options, RequestOption::solicited) ? unsigned{IBV_SEND_SOLICITED} : 0u);
}
/// Why the options of `work` are refused, or none. Source: ibv_post_send(3): a fence is of reliable
/// connections, and a solicited request one that consumes a receive.
template <class Work>
[[nodiscard]] PostRefusal option_refusal(QueuePairHandle const& queue, Work const& work) noexcept {
  auto const options = options_of(work);
  if (has(options, RequestOption::fenced) && queue.local.service != Service::reliable_connection)
    return PostRefusal::fences_nothing;
  if (has(options, RequestOption::solicited) && operation_of<Work> != Operation::send &&
      !immediate_of(work))
    return PostRefusal::solicits_nothing;
  if (has(options, RequestOption::returning)) {
    if (queue.local.service != Service::reliable_connection || immediate_of(work))
      return PostRefusal::returns_elsewhere;
    if (!queue.has_windows) return PostRefusal::no_windows;
  }
  return PostRefusal::none;
}

/// From work to a request of its own, whose bytes are lent.
template <class Queue, class Work>
[[nodiscard]] Resolved describe(Queue const& queue, std::uint64_t id, Work const& work,
                                RequestOf<Work>& request, ibv_sge* elements,
                                LoanRow& loans) noexcept {
  auto const resolved = resolve(queue, work, elements, loans);
  if (resolved.is_refused()) return resolved;
  if constexpr (is_remote<Work>) {
    if (!remote_of(work).in_bounds())
      return {.bytes = resolved.bytes, .refusal = PostRefusal::outside_remote};
    if (!permits(remote_of(work).access, WorkKind<Work>::access))
      return {.bytes = resolved.bytes, .refusal = PostRefusal::no_access};
    if (remote_of(work).length != resolved.bytes)
      return {.bytes = resolved.bytes, .refusal = PostRefusal::lengths_differ};
  }
  if constexpr (is_atomic<Work>)
    if (auto const refusal = atomic_refusal(queue, work); refusal != PostRefusal::none)
      return {.bytes = resolved.bytes, .refusal = refusal};
  if constexpr (is_addressed<Work>)
    if (auto const refusal = destination_refusal(queue, *work.to, resolved.bytes);
        refusal != PostRefusal::none)
      return {.bytes = resolved.bytes,
              .count = static_cast<int>(queue.local.mtu_bytes),
              .refusal = refusal};
  fill_for(queue, work, immediate_of(work), id, elements, resolved, request);
  if constexpr (std::is_same_v<RequestOf<Work>, ibv_send_wr>) {
    if (auto const refusal = option_refusal(queue, work); refusal != PostRefusal::none)
      return {.bytes = resolved.bytes, .refusal = refusal};
    request.send_flags |= option_flags(options_of(work));
    // What a read before it brings is not there as it is posted.
    if (has(options_of(work), RequestOption::fenced))
      request.send_flags &= ~unsigned{IBV_SEND_INLINE};
    // The CPU cannot copy what is not its memory.
    for (auto const& element : list_of(work).elements())
      if (element.region->is_device_memory) request.send_flags &= ~unsigned{IBV_SEND_INLINE};
  }
  return resolved;
}

/// Lends the bytes of `work`, and posts it, which ends the loans of what it copied. What is refused
/// may have loans in its `row`.
template <class Queue, class Work>
[[nodiscard, gnu::always_inline]] inline PostAnswer try_post(Queue const& queue, std::uint64_t id,
                                                             Work const& work,
                                                             LoanRow const& row) noexcept {
  LoanRow loans = row;
  ibv_sge elements[elements_max];
  RequestOf<Work> request;
  auto const resolved = describe(queue, id, work, request, elements, loans);
  if (resolved.is_refused()) return PostAnswer::of(resolved);
  RequestOf<Work>* refused = nullptr;
  if (int const result = post_chain(queue, request, refused); result != 0)
    return device_answer(resolved.bytes, result, refused);
  if (is_copied(request) && row.where != nullptr) give_back_copied(row.next, *row.count);
  return {.bytes = resolved.bytes};
}

/// Why the device did not take a request of `operation`.
[[nodiscard]] Error device_refused(RequestQueue const& queue, Operation operation,
                                   int errno_value) noexcept;
/// The device does not say whether it took the request, as when rxe's doorbell fails; that counts
/// as posted until it is aborted. Source: rdma-core providers/rxe/rxe.c, rxe_post_send().
[[nodiscard]] Error device_unclear(RequestQueue const& queue, Operation operation,
                                   int errno_value) noexcept;

/// Why `work` was not posted. Of loans, `conflict` says.
[[nodiscard]] Error refusal_error(RequestQueue const& queue, Send const& work, PostAnswer answer,
                                  Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(RequestQueue const& queue, Write const& work, PostAnswer answer,
                                  Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(RequestQueue const& queue, Read const& work, PostAnswer answer,
                                  Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(RequestQueue const& queue, Atomic const& work, PostAnswer answer,
                                  Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(RequestQueue const& queue, Receive const& work, PostAnswer answer,
                                  Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(RequestQueue const& queue, AddressedSend const& work,
                                  PostAnswer answer, Error const& conflict) noexcept;
[[nodiscard]] Error refusal_error(RequestQueue const& queue, RoomReceive const& work,
                                  PostAnswer answer, Error const& conflict) noexcept;

}  // namespace lend::verbs
