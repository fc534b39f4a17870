// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests that wait to be posted together. One thread at a time.
#pragma once

#include <verbs/plain_work.hpp>
#include <verbs/posting.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace lend::verbs {

/// Two lists of described requests with their elements. It stays where it is, for it points into
/// itself. Its arrays are never initialised.
///
/// All sends but the last may be unsignaled: those of one send queue complete in order, so that the
/// next signaled one ends all before it; and an error always has a completion. Source: InfiniBand
/// Architecture Specification vol. 1, 10.7.3.1 and 10.8.5.1; Linux
/// drivers/infiniband/sw/rxe/rxe_comp.c, do_complete(); sw/siw/siw_qp_tx.c.
struct Chain {
  static constexpr std::uint32_t requests_max = 32;
  static constexpr std::uint32_t elements_room = 64;  // of two a request, or of one with all it may
  static_assert(elements_room >= elements_max);

  template <class Request>
  struct List {
    Request* first = nullptr;
    Request* last = nullptr;
    std::uint32_t size = 0;
    std::uint32_t plain_room = 0;  // plain requests that there is room for; 0: unknown

    void push(Request& request) noexcept {
      (last != nullptr ? last->next : first) = &request;
      last = &request;
      ++size;
    }
  };
  union Request {
    ibv_send_wr send;
    ibv_recv_wr receive;
  };

  List<ibv_send_wr> sends{};  // and writes and reads
  List<ibv_recv_wr> receives{};
  std::uint32_t elements_used = 0;
  std::uint32_t silent_last = 0;  // sends without completions, up to the last
  std::uint64_t silent_id = 0;  // of the last, if it is one of them; a chain with one is not posted
  Request requests[requests_max];
  ibv_sge elements[elements_room];

  Chain() noexcept {}  // NOLINT(cppcoreguidelines-pro-type-member-init): the arrays, on purpose

  [[nodiscard]] std::uint32_t size() const noexcept { return sends.size + receives.size; }
  [[nodiscard]] bool has_room(std::size_t elements_wanted) const noexcept {
    return size() < requests_max &&
           elements_used + std::min<std::size_t>(elements_wanted, elements_max) <= elements_room;
  }
  void clear() noexcept {
    sends = {};
    receives = {};
    elements_used = silent_last = 0;
    silent_id = 0;
  }
};

/// The list of requests of this kind of work, and the place of its next one.
template <class Work>
[[nodiscard, gnu::always_inline]] inline auto& list_for(Chain& chain) noexcept {
  if constexpr (std::is_same_v<RequestOf<Work>, ibv_recv_wr>)
    return chain.receives;
  else
    return chain.sends;
}
template <class Work>
[[nodiscard, gnu::always_inline]] inline RequestOf<Work>& place_for(Chain& chain) noexcept {
  auto& place = chain.requests[chain.size()];
  if constexpr (std::is_same_v<RequestOf<Work>, ibv_recv_wr>)
    return place.receive;
  else
    return place.send;
}

/// Finds out for how many more plain requests of a queue of `depth` there is room, if they follow
/// each other. Whether there is any.
template <class Work>
[[nodiscard]] bool find_plain_room(Chain& chain, std::uint32_t depth) noexcept {
  auto& list = list_for<Work>(chain);
  chain.sends.plain_room = chain.receives.plain_room = 0;
  if (list.size < depth)
    list.plain_room = std::min({depth - list.size, Chain::requests_max - chain.size(),
                                Chain::elements_room - chain.elements_used});
  return list.plain_room > 0;
}

/// Describes work that is_plain(), and was lent, behind the others of its list, which has
/// plain_room.
template <class Work>
[[gnu::always_inline]] inline void append_plain(QueuePairHandle const& queue_pair, Chain& chain,
                                                std::uint64_t id, Plain<Work> plain,
                                                bool is_silent) noexcept {
  auto& request = place_for<Work>(chain);
  auto& list = list_for<Work>(chain);
  describe_plain(queue_pair, id, plain, request, chain.elements[chain.elements_used]);
  if constexpr (std::is_same_v<RequestOf<Work>, ibv_send_wr>)
    request.send_flags -= is_silent ? unsigned{IBV_SEND_SIGNALED} : 0u;
  ++chain.elements_used;
  --list.plain_room;
  list.push(request);
}

/// Lends the bytes of `work`, and describes it behind the others of its list. There must be room
/// for it. What is refused was not added, and may have loans in its row.
template <class Work>
[[nodiscard]] Resolved append(QueuePairHandle const& queue_pair, Chain& chain, std::uint64_t id,
                              Work const& work, LoanRow loans) noexcept {
  // The device would refuse it in the middle of the chain.
  if (immediate_of(work) && !queue_pair.carries_immediates())
    return {.refusal = PostRefusal::no_immediates};
  auto& request = place_for<Work>(chain);
  auto const resolved =
      describe(queue_pair, id, work, request, &chain.elements[chain.elements_used], loans);
  if (resolved.is_refused()) return resolved;
  list_for<Work>(chain).push(request);
  chain.elements_used += static_cast<std::uint32_t>(resolved.count);
  chain.sends.plain_room = chain.receives.plain_room = 0;
  return resolved;
}

/// Whether a request of `operation` may be unsignaled. On iWARP a read may not: siw completes a
/// send before a read that was posted ahead of it. Source: sw/siw/siw_qp_tx.c,
/// siw_qp_sq_process(), which ends sends as they leave and reads as their answers come.
[[nodiscard]] inline bool may_be_silent(QueuePairHandle const& queue_pair,
                                        Operation operation) noexcept {
  return operation != Operation::read || !queue_pair.domain->context->is_iwarp();
}

/// Takes its completion from a request that was described with one, or gives it back.
inline void silence(ibv_send_wr& request) noexcept {
  request.send_flags &= ~unsigned{IBV_SEND_SIGNALED};
}
inline void signal(ibv_send_wr& request) noexcept {
  request.send_flags |= unsigned{IBV_SEND_SIGNALED};
}
[[nodiscard]] inline bool is_silent(ibv_send_wr const& request) noexcept {
  return (request.send_flags & IBV_SEND_SIGNALED) == 0;
}
[[nodiscard]] inline bool is_silent(ibv_recv_wr const&) noexcept {
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

}  // namespace lend::verbs
