// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies short messages into a chain as they are added, so that their bytes are not on loan until
// it is posted. One thread at a time.
#pragma once

#include <base/copy_few.hpp>
#include <verbs/post/chain.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::verbs {

/// Whether the bytes of work that is_plain() are copied as it is added to a chain.
template <class Work>
[[nodiscard, gnu::always_inline]] inline bool is_copied_ahead(QueuePairHandle const& queue_pair,
                                                              Plain<Work> plain) noexcept {
  return is_copied(queue_pair, plain) && plain.element.range.length <= Chain::copied_max;
}

/// Copies the bytes of such work, which may be read, into the next request.
template <class Work>
[[gnu::always_inline]] inline void copy_plain(Plain<Work> plain, Chain& chain) noexcept {
  auto const [region, range] = plain.element;
  base::copy_few(Chain::copy_in(*chain.sends.last), region->address + range.offset, range.length);
}

/// Copies the bytes of the last send, which are on loan, if they are few and its post would copy
/// them. Whether it did, so that the loans may end.
[[nodiscard]] inline bool copy_ahead(Chain& chain) noexcept {
  ibv_send_wr& request = chain.sends.back();
  if (!is_copied(request)) return false;
  std::byte* const copy = Chain::copy_in(request);
  std::uint32_t length = 0;
  for (int i = 0; i < request.num_sge; ++i) {
    ibv_sge const& piece = request.sg_list[i];
    if (length + std::uint64_t{piece.length} > Chain::copied_max) {
      chain.sends.has_late_copies = true;
      return false;
    }
    // SAFETY: the address is one of a region of this process, see describe().
    base::copy_few(copy + length, reinterpret_cast<std::byte const*>(piece.addr), piece.length);
    length += piece.length;
  }
  *request.sg_list = {reinterpret_cast<std::uintptr_t>(copy), length, request.sg_list->lkey};
  request.num_sge = 1;
  return true;
}

}  // namespace lend::verbs
