// SPDX-License-Identifier: MIT OR Apache-2.0
// What became of work that was to be posted. Values; any thread.
#pragma once

#include <cstdint>

namespace lend::verbs {

/// Why work was not posted, as found where it is checked; refusal_error() words it.
enum class PostRefusal : int {
  none,
  empty_list,
  too_many_elements,
  outside_region,
  other_domain,
  on_loan,
  too_long,
  outside_remote,
  no_access,  ///< the peer exposed the bytes for something else
  lengths_differ,
  no_atomics,
  off_word,    ///< the peer's word does not begin at a multiple of 8
  bad_result,  ///< of an atomic operation: not 8 aligned bytes
  no_immediates,
  no_destination,         ///< of a datagram: it was moved from
  foreign_destination,    ///< it is of another protection domain
  too_long_for_a_packet,  ///< the datagram
  no_windows,             ///< of a device without, what a send returns
  returns_elsewhere,      ///< a send that returns a window on another service, or with an immediate
  fences_nothing,         ///< a fenced request of another service than reliable connections
  solicits_nothing,       ///< a solicited write without an immediate
  by_device,
  unclear,  ///< the device failed, and named no request that it had not taken
};

/// What was made of a list. Elements of no bytes are left out: on some cards a length of 0 means
/// 2^31. Source: rdma-core providers/mlx5/qp.c.
struct Resolved {
  std::uint64_t bytes = 0;
  int count = 0;  ///< of elements; where one is refused, its index; of a long datagram the MTU
  PostRefusal refusal = PostRefusal::none;

  [[nodiscard]] bool is_refused() const noexcept { return refusal != PostRefusal::none; }
};

/// What became of work that was to be posted.
struct [[nodiscard]] PostAnswer {
  std::uint64_t bytes = 0;  ///< of the list, once its elements were good
  int detail = 0;           ///< Resolved::count where it was refused, or the device's errno
  PostRefusal refusal = PostRefusal::none;

  [[nodiscard]] static PostAnswer of(Resolved const& resolved) noexcept {
    return {resolved.bytes, resolved.count, resolved.refusal};
  }
  [[nodiscard]] bool is_posted() const noexcept { return refusal == PostRefusal::none; }
};

}  // namespace lend::verbs
