// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests that wait to be posted together. One thread at a time.
#pragma once

#include <lend/verbs/chain_storage.hpp>
#include <verbs/post/plain_work.hpp>
#include <verbs/post/posting.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
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
  static constexpr std::uint32_t requests_max = 32;   // in both lists
  static constexpr std::uint32_t elements_room = 64;  // of two a request, or of one with all it may
  static_assert(elements_room >= elements_max);
  // Bytes that are copied as their send is added, into the part of its request that only memory
  // windows use.
  static constexpr std::size_t copied_max = sizeof(ibv_send_wr::bind_mw);

  /// Each request names the place behind it as the next one, so that to add one changes no other;
  /// close() makes it a list for verbs.
  template <class Request>
  struct List {
    Request* first;
    Request* last;                 // behind it
    bool has_late_copies = false;  // some bytes are copied by the post, and on loan until then

    [[nodiscard]] std::uint32_t size() const noexcept {
      return static_cast<std::uint32_t>(last - first);
    }
    [[nodiscard]] Request* begin() const noexcept { return first; }
    [[nodiscard]] Request* end() const noexcept { return last; }
    [[nodiscard]] Request& back() const noexcept { return last[-1]; }
    void close() noexcept { back().next = nullptr; }
  };

  List<ibv_send_wr> sends;  // and writes and reads
  List<ibv_recv_wr> receives;
  ibv_sge* next_element;
  std::uint64_t silent_id;      // of the last send, if it is silent; a chain with one is not posted
  std::uint32_t silent_from;    // sends to the last signaled one, itself counted
  std::uint32_t const run_max;  // the same from one to the next; from 1
  // Plain requests of any kind that there is room for, without a send that is to be signaled
  // before; 0: unknown.
  std::uint32_t plain_room;
  std::uint32_t const plain_room_at_first;
  ibv_send_wr send_requests[requests_max];
  ibv_recv_wr receive_requests[requests_max];
  ibv_sge elements[elements_room];

  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the arrays, on purpose
  explicit Chain(std::uint32_t sends_to_a_signaled_one = 1,
                 std::uint32_t depth = requests_max) noexcept
      : run_max{sends_to_a_signaled_one},
        plain_room_at_first{std::min({requests_max, depth, run_max})} {
    clear();
  }
  Chain(Chain const&) = delete;
  Chain& operator=(Chain const&) = delete;

  [[nodiscard]] std::uint32_t size() const noexcept { return sends.size() + receives.size(); }
  [[nodiscard]] std::uint32_t elements_used() const noexcept {
    return static_cast<std::uint32_t>(next_element - elements);
  }
  [[nodiscard]] bool has_room(std::size_t elements_wanted) const noexcept {
    return size() < requests_max &&
           elements_used() + std::min<std::size_t>(elements_wanted, elements_max) <= elements_room;
  }
  void clear() noexcept {
    sends = {send_requests, send_requests};
    receives = {receive_requests, receive_requests};
    next_element = elements;
    plain_room = plain_room_at_first;
    end_run();
  }

  /// The last send is signaled.
  void end_run() noexcept {
    silent_id = 0;
    silent_from = sends.size();
  }
  /// Sends that may follow the last one before one of them is to be signaled.
  [[nodiscard]] std::uint32_t run_left() const noexcept {
    return run_max - (sends.size() - silent_from);
  }
  [[nodiscard]] static std::byte* copy_in(ibv_send_wr& request) noexcept {
    return reinterpret_cast<std::byte*>(&request.bind_mw);
  }
};

/// The chain in a batch's storage.
[[nodiscard]] inline Chain& chain_in(ChainStorage& storage) noexcept {
  return *std::launder(reinterpret_cast<Chain*>(storage.bytes));
}
[[nodiscard]] inline Chain const& chain_in(ChainStorage const& storage) noexcept {
  return *std::launder(reinterpret_cast<Chain const*>(storage.bytes));
}
/// Makes one there, for queues of at least `depth`.
inline void make_chain_in(ChainStorage& storage, std::uint32_t run_max = 1,
                          std::uint32_t depth = Chain::requests_max) noexcept {
  static_assert(sizeof(Chain) <= ChainStorage::size && alignof(Chain) <= alignof(ChainStorage));
  new (storage.bytes) Chain{run_max, depth};
}

/// The list of requests of this kind of work.
template <class Work>
[[nodiscard, gnu::always_inline]] inline auto& list_for(Chain& chain) noexcept {
  if constexpr (std::is_same_v<RequestOf<Work>, ibv_recv_wr>)
    return chain.receives;
  else
    return chain.sends;
}

/// Takes its completion from a request that was described with one, or gives it back.
inline void silence(ibv_send_wr& request) noexcept {
  request.send_flags &= ~unsigned{IBV_SEND_SIGNALED};
}
inline void signal(ibv_send_wr& request) noexcept {
  request.send_flags |= unsigned{IBV_SEND_SIGNALED};
}

/// Before one more send: signals the last one if so many went before it without.
inline void end_full_run(Chain& chain) noexcept {
  if (chain.run_left() > 0) return;
  signal(chain.sends.back());
  chain.end_run();
}

/// Finds out for how many more plain requests there is room. Whether there is any.
inline bool find_plain_room(Chain& chain, std::uint32_t send_depth,
                            std::uint32_t receive_depth) noexcept {
  end_full_run(chain);
  chain.plain_room = std::min(
      {Chain::requests_max - chain.size(), Chain::elements_room - chain.elements_used(),
       chain.run_left(), send_depth - chain.sends.size(), receive_depth - chain.receives.size()});
  return chain.plain_room > 0;
}

/// Adds the request that was described behind `list`.
template <class Request>
[[gnu::always_inline]] inline void push(Chain::List<Request>& list) noexcept {
  Request& request = *list.last;
  list.last = request.next = &request + 1;
}

/// Describes work that is_plain() and may be silent, and was lent, or copied by copy_plain(),
/// behind the others of its list; there is plain_room. A send is unsignaled.
template <bool is_copied_so, class Work>
[[gnu::always_inline]] inline void append_plain(QueuePairHandle const& queue_pair, Chain& chain,
                                                std::uint64_t id, Plain<Work> plain) noexcept {
  auto& list = list_for<Work>(chain);
  auto& request = *list.last;
  describe_plain(queue_pair, id, plain, request, *chain.next_element);
  push(list);
  if constexpr (is_copied_so) {
    request.send_flags = IBV_SEND_INLINE;  // known, and so not compared again
    chain.next_element->addr = reinterpret_cast<std::uintptr_t>(Chain::copy_in(request));
  }
  if constexpr (std::is_same_v<RequestOf<Work>, ibv_send_wr> && !is_copied_so) {
    silence(request);
    if (is_copied(request)) [[unlikely]]
      list.has_late_copies = true;
  }
  ++chain.next_element;
  --chain.plain_room;
}

/// Lends the bytes of `work`, and describes it behind the others of its list. There must be room
/// for it. What is refused was not added, and may have loans in its row.
template <class Work>
[[nodiscard]] Resolved append(QueuePairHandle const& queue_pair, Chain& chain, std::uint64_t id,
                              Work const& work, LoanRow loans) noexcept {
  // The device would refuse it in the middle of the chain.
  if (immediate_of(work) && !queue_pair.carries_immediates())
    return {.refusal = PostRefusal::no_immediates};
  auto& list = list_for<Work>(chain);
  auto const resolved = describe(queue_pair, id, work, *list.last, chain.next_element, loans);
  if (resolved.is_refused()) return resolved;
  push(list);
  chain.next_element += resolved.count;
  chain.plain_room = 0;
  return resolved;
}

/// Whether a request of `operation` may be unsignaled.
[[nodiscard]] inline bool may_be_silent(RequestQueue const& queue, Operation operation) noexcept {
  return operation != Operation::read || queue.reads_in_order;
}

[[nodiscard]] inline bool is_silent(ibv_send_wr const& request) noexcept {
  return (request.send_flags & IBV_SEND_SIGNALED) == 0;
}
[[nodiscard]] inline bool is_silent(ibv_recv_wr const&) noexcept {
  return false;
}

}  // namespace lend::verbs
