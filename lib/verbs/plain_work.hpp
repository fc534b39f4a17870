// SPDX-License-Identifier: MIT OR Apache-2.0
// Most work: one element with bytes, without an immediate. It is checked and described in few
// instructions; all other work, and what is wrong, is left to posting.hpp. Inline, since a call
// costs as much as a tenth of a post. One thread at a time per queue pair.
#pragma once

#include <verbs/loan_row.hpp>
#include <verbs/request.hpp>
#include <verbs/work_kind.hpp>

#include <cstdint>

namespace lend::verbs {

/// The element of work that may be plain; null if it is not.
template <class Work>
[[nodiscard, gnu::always_inline]] inline auto const* only_element(Work const& work) noexcept {
  auto const& list = list_of(work);
  bool const is_one = list.size() == 1 && !immediate_of(work).has_value();
  return is_one ? list.elements().data() : nullptr;
}

/// Whether work whose only element is `element` may be posted, but for its loan.
template <class Work, class Element>
[[nodiscard, gnu::always_inline]] inline bool is_plain(RequestQueue const& queue, Work const& work,
                                                       Element const& element) noexcept {
  RegionState const* const region = element.region;
  auto const [offset, length] = element.range;
  if (region == nullptr || region->protection_domain != queue.protection_domain ||
      offset > region->length || length - 1 >= region->length - offset ||  // too long, or no bytes
      length > queue.message_bytes_max) [[unlikely]]
    return false;
  if constexpr (is_remote<Work>)
    return permits(remote_of(work).access, WorkKind<Work>::access) &&
           remote_of(work).length == length;
  else if constexpr (is_atomic<Work>)
    return is_word(element) && work.word.address % RemoteWord::size == 0 &&
           permits(work.word.access, RemoteAccess::atomic) && queue.domain->context->has_atomics;
  else
    return true;
}

/// Lends the bytes of work that is_plain(); `loans` is then 1, or 0 if its region has no ledger.
/// False: nothing was lent, and begin_loan() decides.
template <class Element>
[[nodiscard, gnu::always_inline]] inline bool lend_plain(LentPiece* piece, Element const& element,
                                                         Operation operation,
                                                         SourceLine const& where,
                                                         std::uint32_t& loans) noexcept {
  RegionState& region = *element.region;
  if (!begin_loan_at_once(piece->loan, region, element.range, ElementKind<Element>::loan, operation,
                          where)) [[unlikely]]
    return !region.ledger.is_recording();
  piece->region = &region;
  loans = 1;
  return true;
}

/// Describes work that is_plain(). `entry` must stay until it is posted.
template <class Queue, class Work, class Element>
[[gnu::always_inline]] inline void describe_plain(Queue const& queue, std::uint64_t id,
                                                  Work const& work, Element const& element,
                                                  RequestOf<Work>& request,
                                                  ibv_sge& entry) noexcept {
  fill_element(entry, *element.region, element.range);
  fill_for(queue, work, std::nullopt, id, &entry, {element.range.length, 1}, request);
}

}  // namespace lend::verbs
