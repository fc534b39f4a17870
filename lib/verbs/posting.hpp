// SPDX-License-Identifier: MIT OR Apache-2.0
// From a request of lend to one of verbs: checked, described, posted. The only caller of
// ibv_post_send and ibv_post_recv. Inline, since a call costs as much as a tenth of a post. One
// thread at a time per queue pair.
#pragma once

#include <lend/base/error.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <lend/verbs/work_request.hpp>
#include <verbs/handles.hpp>
#include <verbs/region_state.hpp>
#include <verbs/verb_error.hpp>

#include <endian.h>
#include <climits>
#include <cstdint>
#include <span>
#include <type_traits>

namespace lend {

/// What was made of a list. Elements of no bytes are left out: on some cards a length of 0 means
/// 2^31. Source: rdma-core providers/mlx5/qp.c.
struct Resolved {
  enum class Outcome : std::uint8_t {
    good,
    said_wrong,  ///< refusal() tells what
    not_lent,
  };

  std::uint64_t bytes = 0;
  int count = 0;  ///< of elements
  Outcome outcome = Outcome::good;

  [[nodiscard]] bool is_refused() const noexcept { return outcome != Outcome::good; }
};

/// For resolve(), where nothing is lent.
struct LendNothing {
  template <class Element>
  bool operator()(Element const&) const noexcept {
    return true;
  }
};

/// Puts an element at `target`, behind those of `before`, and lends it.
template <class Element, class Lend>
[[nodiscard, gnu::always_inline]] inline Resolved resolve_one(QueuePairHandle const& queue_pair,
                                                              Element const& element,
                                                              ibv_sge* target, Resolved before,
                                                              Lend& lend) noexcept {
  RegionState const* const region = element.region;
  if (region == nullptr || region->protection_domain != queue_pair.protection_domain ||
      !region->contains(element.range)) [[unlikely]]
    return {.outcome = Resolved::Outcome::said_wrong};
  if (!lend(element)) [[unlikely]]
    return {.outcome = Resolved::Outcome::not_lent};
  ibv_sge& entry = target[before.count];
  entry.addr = reinterpret_cast<std::uintptr_t>(region->address + element.range.offset);
  // Narrows only where resolve() refuses the bytes: message_bytes_max fits in 32 bits.
  entry.length = static_cast<std::uint32_t>(element.range.length);
  entry.lkey = region->local_key;
  // Cannot wrap: 32 regions fit in the address space.
  return {before.bytes + element.range.length, before.count + (element.range.length != 0 ? 1 : 0)};
}

/// Of none, or of several. Out of line: a loop around what resolve_one() has inline would cost even
/// one element ten instructions. With a copy of `lend`, or that of one would not stay in registers.
template <class Element, class Lend>
[[nodiscard, gnu::noinline]] Resolved resolve_several(QueuePairHandle const& queue_pair,
                                                      std::span<Element const> elements,
                                                      bool may_be_empty, ibv_sge* target,
                                                      Lend lend) noexcept {
  if (elements.size() - 1 >= queue_pair.elements)  // none, or too many
    return {.outcome = elements.empty() && may_be_empty ? Resolved::Outcome::good
                                                        : Resolved::Outcome::said_wrong};
  Resolved resolved;
  for (Element const& element : elements) {
    resolved = resolve_one(queue_pair, element, target, resolved, lend);
    if (resolved.is_refused()) break;
  }
  return resolved;
}

/// Fills `target`, which has room for elements_max. No list is longer than `elements` of the queue
/// pair, which is 1 to that; one of no elements must be allowed. Each element that names bytes of
/// its region is offered to `lend`, which may say no.
template <class Element, class Lend>
[[nodiscard, gnu::always_inline]] inline Resolved resolve(QueuePairHandle const& queue_pair,
                                                          ElementList<Element> const& list,
                                                          bool may_be_empty, ibv_sge* target,
                                                          Lend&& lend) noexcept {
  auto const elements = list.elements();
  Resolved resolved = elements.size() == 1
                          ? resolve_one(queue_pair, elements.front(), target, {}, lend)
                          : resolve_several(queue_pair, elements, may_be_empty, target, lend);
  if (resolved.bytes > queue_pair.message_bytes_max) [[unlikely]]
    resolved.outcome = Resolved::Outcome::said_wrong;
  return resolved;
}

/// Posted, or why not; what was said wrong only refusal() can tell.
struct [[nodiscard]] PostAnswer {
  // Some verbs answer -1 and set errno.
  static constexpr int said_wrong = INT_MIN;
  static constexpr int not_lent = INT_MIN + 1;
  // And an errno: the device failed, and named no request that it had not taken.
  static constexpr int unclear = INT_MIN + 2;

  int result;           ///< 0: posted; one of those; else as ibv_post_send(3) answers
  std::uint64_t bytes;  ///< of the list

  [[nodiscard]] bool is_posted() const noexcept { return result == 0; }
  [[nodiscard]] bool is_unclear() const noexcept { return result >= unclear && result < -9999; }
};

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

// From work to a request of its own, lending as resolve() does. `elements` must stay until it is
// posted.

template <class Lend>
[[gnu::always_inline]] inline Resolved describe(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                Send const& work, ibv_send_wr& request,
                                                ibv_sge* elements, Lend&& lend) noexcept {
  auto const resolved =
      resolve(queue_pair, work.source, work.immediate.has_value(), elements, lend);
  if (resolved.is_refused()) [[unlikely]]
    return resolved;
  // Always: drivers copy it unasked.
  request.imm_data = htobe32(work.immediate.value_or(0));
  fill(queue_pair, request, id, elements, resolved,
       work.immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, true);
  return resolved;
}

template <class Lend>
[[gnu::always_inline]] inline Resolved describe(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                Write const& work, ibv_send_wr& request,
                                                ibv_sge* elements, Lend&& lend) noexcept {
  auto const resolved =
      resolve(queue_pair, work.source, work.immediate.has_value(), elements, lend);
  if (resolved.is_refused()) [[unlikely]]
    return resolved;
  if (!work.target.in_bounds || resolved.bytes != work.target.length) [[unlikely]]
    return {.outcome = Resolved::Outcome::said_wrong};
  // Always: drivers copy it unasked.
  request.imm_data = htobe32(work.immediate.value_or(0));
  request.wr.rdma.remote_addr = work.target.address;
  request.wr.rdma.rkey = work.target.key;
  fill(queue_pair, request, id, elements, resolved,
       work.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, true);
  return resolved;
}

template <class Lend>
[[gnu::always_inline]] inline Resolved describe(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                Read const& work, ibv_send_wr& request,
                                                ibv_sge* elements, Lend&& lend) noexcept {
  auto const resolved = resolve(queue_pair, work.target, false, elements, lend);
  if (resolved.is_refused()) [[unlikely]]
    return resolved;
  if (!work.source.in_bounds || resolved.bytes != work.source.length) [[unlikely]]
    return {.outcome = Resolved::Outcome::said_wrong};
  request.wr.rdma.remote_addr = work.source.address;
  request.wr.rdma.rkey = work.source.key;
  fill(queue_pair, request, id, elements, resolved, IBV_WR_RDMA_READ, false);
  return resolved;
}

template <class Lend>
[[gnu::always_inline]] inline Resolved describe(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                Receive const& work, ibv_recv_wr& request,
                                                ibv_sge* elements, Lend&& lend) noexcept {
  auto const resolved = resolve(queue_pair, work.target, work.allow_empty, elements, lend);
  if (resolved.is_refused()) [[unlikely]]
    return resolved;
  request.wr_id = id;
  request.next = nullptr;
  request.sg_list = elements;
  request.num_sge = resolved.count;
  return resolved;
}

template <class Work>
using RequestOf = std::conditional_t<std::is_same_v<Work, Receive>, ibv_recv_wr, ibv_send_wr>;

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

template <class Work, class Lend>
[[gnu::always_inline]] inline PostAnswer try_post(QueuePairHandle const& queue_pair,
                                                  std::uint64_t id, Work const& work,
                                                  Lend&& lend) noexcept {
  ibv_sge elements[elements_max];
  RequestOf<Work> request;
  auto const resolved = describe(queue_pair, id, work, request, elements, lend);
  if (resolved.is_refused()) [[unlikely]]
    return {resolved.outcome == Resolved::Outcome::not_lent ? PostAnswer::not_lent
                                                            : PostAnswer::said_wrong,
            0};
  RequestOf<Work>* refused = nullptr;
  int const result = post_chain(queue_pair, request, refused);
  if (result != 0 && refused == nullptr) [[unlikely]]
    return {PostAnswer::unclear + errno_of(result), resolved.bytes};
  return {result, resolved.bytes};
}

/// Why the device did not take a request, and why it is given none with an immediate.
[[nodiscard]] Error device_refused(QueuePairHandle const& queue_pair, char const* verb,
                                   int result) noexcept;
[[nodiscard]] Error no_immediates(QueuePairHandle const& queue_pair) noexcept;
/// Why nobody knows whether it took one, as where rxe's doorbell fails: that counts as posted until
/// it is flushed. Source: rdma-core providers/rxe/rxe.c, rxe_post_send().
[[nodiscard]] Error device_unclear(QueuePairHandle const& queue_pair, char const* verb,
                                   int result) noexcept;

/// Why try_post() did not post.
[[nodiscard]] Error refusal(QueuePairHandle const& queue_pair, Send const& work,
                            PostAnswer answer) noexcept;
[[nodiscard]] Error refusal(QueuePairHandle const& queue_pair, Write const& work,
                            PostAnswer answer) noexcept;
[[nodiscard]] Error refusal(QueuePairHandle const& queue_pair, Read const& work,
                            PostAnswer answer) noexcept;
[[nodiscard]] Error refusal(QueuePairHandle const& queue_pair, Receive const& work,
                            PostAnswer answer) noexcept;

}  // namespace lend
