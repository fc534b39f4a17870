// SPDX-License-Identifier: MIT OR Apache-2.0
// Most work: one element with bytes, without an immediate or options. It is checked and described
// in few instructions; all other work, and what is wrong, is left to posting.hpp. Inline, since a
// call costs as much as a tenth of a post. One thread at a time per queue pair.
#pragma once

#include <verbs/memory/loan_row.hpp>
#include <verbs/post/request.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lend::verbs {

/// The words of work that may be plain. Passed by value, so that compilers keep them in registers.
template <class Work>
struct Plain {
  using Element = decltype(list_of(std::declval<Work const&>()).only());

  Element element;
  [[no_unique_address]] PeerPart<Work> peer{};

  /// The request that has these words.
  [[nodiscard, gnu::always_inline]] Work work() const noexcept {
    if constexpr (is_remote<Work> || is_atomic<Work> || is_addressed<Work>)
      return {element, *peer};
    else
      return {element};
  }
};

/// The words of work that may be plain; good while it exists.
template <class Work>
[[nodiscard, gnu::always_inline]] inline Plain<Work> plain_of(Work const& work) noexcept {
  return {list_of(work).only(), peer_part_of(work)};
}

/// Whether it may be posted, but for its loan.
template <class Queue, class Work>
[[nodiscard, gnu::always_inline]] inline bool is_plain(Queue const& queue,
                                                       Plain<Work> plain) noexcept {
  RegionState const* const region = plain.element.region;
  auto const [offset, length] = plain.element.range;
  if (region == nullptr || region->protection_domain != queue.protection_domain ||
      offset > region->length || length - 1 >= region->length - offset ||  // too long, or no bytes
      length > queue.message_bytes_max) [[unlikely]]
    return false;
  if constexpr (is_remote<Work>)
    return permits(plain.peer->access, WorkKind<Work>::access) && plain.peer->length == length;
  else if constexpr (is_atomic<Work>)
    // One test of both places, as is_word() and its like for the peer's.
    return length == RemoteWord::size &&
           ((reinterpret_cast<std::uintptr_t>(region->address) + offset) |
            plain.peer->word.address) %
                   RemoteWord::size ==
               0 &&
           permits(plain.peer->word.access, RemoteAccess::atomic) && queue.has_atomics;
  else if constexpr (is_addressed<Work>)
    return destination_refusal(queue, *plain.peer, length) == PostRefusal::none;
  else
    return true;
}

/// Whether a device may copy the bytes of such work as it is posted: what leaves this side.
template <class Work>
inline constexpr bool may_be_copied =
    operation_of<Work> == Operation::send || operation_of<Work> == Operation::write;

/// Whether the bytes of work that is_plain() are copied by its post.
template <class Work, class Queue>
[[nodiscard, gnu::always_inline]] inline bool is_copied(Queue const& queue,
                                                        Plain<Work> plain) noexcept {
  if constexpr (may_be_copied<Work>)
    return are_copied(queue, plain.element.range.length);
  else
    return false;
}

/// Lends the bytes of work that is_plain(), if its region has a ledger; if the next call is to copy
/// them, mostly without a record. False: nothing was lent, and begin_loan() decides.
template <class Work>
[[nodiscard, gnu::always_inline]] inline bool lend_plain(LentPiece& piece, Plain<Work> plain,
                                                         SourceLine where,
                                                         bool is_copied_next = false) noexcept {
  RegionState& region = *plain.element.region;
  piece.region = &region;
  if (is_copied_next && region.ledger.allows_reading_at_once()) [[likely]] {
    piece.loan.note(where);
    return true;
  }
  constexpr auto kind = ElementKind<typename Plain<Work>::Element>::loan;
  if (!begin_loan_at_once(piece.loan, region, plain.element.range, kind, operation_of<Work>, where))
      [[unlikely]]
    return !region.ledger.is_recording();
  return true;
}

/// Describes work that is_plain(). `entry` must stay until it is posted.
template <class Queue, class Work>
[[gnu::always_inline]] inline void describe_plain(Queue const& queue, std::uint64_t id,
                                                  Plain<Work> plain, RequestOf<Work>& request,
                                                  ibv_sge& entry) noexcept {
  fill_element(entry, *plain.element.region, plain.element.range);
  Resolved const resolved{plain.element.range.length, 1};
  fill_for(queue, plain.work(), std::nullopt, id, &entry, resolved, request);
}

/// The plain requests of one queue pair: what is the same in each is described once. A device only
/// reads what is posted, as programs that post a request twice rely on.
template <class Work>
struct Form {
  RequestOf<Work> request;
  ibv_sge entry;

  Form() noexcept {  // NOLINT(cppcoreguidelines-pro-type-member-init): describe() does the rest
    request.next = nullptr;
    request.sg_list = &entry;
    request.num_sge = 1;
    if constexpr (std::is_same_v<RequestOf<Work>, ibv_send_wr>) {
      request.imm_data = 0;
      request.send_flags = IBV_SEND_SIGNALED;
      request.opcode = WorkKind<Work>::operation == Operation::send   ? IBV_WR_SEND
                       : is_atomic<Work>                              ? IBV_WR_ATOMIC_FETCH_AND_ADD
                       : WorkKind<Work>::operation == Operation::read ? IBV_WR_RDMA_READ
                                                                      : IBV_WR_RDMA_WRITE;
    }
  }
  Form(Form const&) = delete;
  Form& operator=(Form const&) = delete;

  /// From here on each request carries an immediate, which is this one until the next call.
  void carry(std::uint32_t immediate) noexcept
      requires(!std::is_same_v<RequestOf<Work>, ibv_recv_wr>) {
    constexpr bool is_send = operation_of<Work> == Operation::send;
    request.opcode = is_send ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htobe32(immediate);
  }
  /// The work that has these words, and the immediate that this form carries, if any.
  [[nodiscard]] Work work_of(Plain<Work> plain) const noexcept {
    if constexpr (requires { plain.work().with_immediate(0u); })
      if (request.opcode == IBV_WR_SEND_WITH_IMM || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        return plain.work().with_immediate(be32toh(request.imm_data));
    return plain.work();
  }
  /// The work that describe() was given last, whose element is of `region`.
  [[nodiscard]] Work described(RegionState& region, PeerPart<Work> peer) const noexcept {
    auto const start = reinterpret_cast<std::uintptr_t>(region.address);
    return work_of({{&region, {entry.addr - start, entry.length}}, peer});
  }

  /// Describes a write of bytes that are of no region.
  void describe(std::uint64_t id, std::span<std::byte const> bytes, RemoteSlice const& to) noexcept
      requires(std::is_same_v<Work, Write>) {
    entry = {reinterpret_cast<std::uintptr_t>(bytes.data()),
             static_cast<std::uint32_t>(bytes.size()), 0};
    request.wr_id = id;
    request.send_flags = flags_for(true);
    request.wr.rdma.remote_addr = to.address;
    request.wr.rdma.rkey = to.key;
  }

  /// Describes work that is_plain().
  [[gnu::always_inline]] void describe(std::uint64_t id, Plain<Work> plain,
                                       bool is_copied) noexcept {
    fill_element(entry, *plain.element.region, plain.element.range);
    request.wr_id = id;
    if constexpr (may_be_copied<Work>) request.send_flags = flags_for(is_copied);
    if constexpr (is_remote<Work>) {
      request.wr.rdma.remote_addr = plain.peer->address;
      request.wr.rdma.rkey = plain.peer->key;
    }
    if constexpr (is_atomic<Work>) {
      request.opcode = opcode_of(*plain.peer);
      fill_change(request, *plain.peer);
    }
    if constexpr (is_addressed<Work>)
      address_to(*DestinationAccess::handle_of(*plain.peer), request);
  }
};
using Forms = std::tuple<Form<Send>, Form<Receive>, Form<Write>, Form<Read>, Form<Atomic>>;

}  // namespace lend::verbs
