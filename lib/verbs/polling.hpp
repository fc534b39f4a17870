// SPDX-License-Identifier: MIT OR Apache-2.0
// From completions of verbs to those of lend. The only caller of ibv_poll_cq. Inline, since a call
// costs as much as a tenth of a poll. One thread at a time.
#pragma once

#include <lend/base/error.hpp>
#include <lend/verbs/completion.hpp>
#include <verbs/provider.hpp>

#include <endian.h>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lend {

/// Completions taken from the device at a time: 768 bytes of stack.
constexpr int poll_batch = 16;

/// Takes up to `wanted` completions, at most poll_batch, and calls `visit(id, CompletedWork)` or
/// `visit(id, FailedWork)` for each. Answers how many, or what ibv_poll_cq(3) answered if negative.
template <class Visit>
[[gnu::always_inline]] inline int take_completions(ibv_cq& queue, int wanted,
                                                   Visit&& visit) noexcept {
  ibv_wc entries[poll_batch];  // filled by the device; zeroing them would cost more than the poll
  int const got = ibv_poll_cq(&queue, wanted, entries);
  for (int i = 0; i < got; ++i) {
    ibv_wc const& entry = entries[i];
    // Status first: on failure nothing but wr_id, status, qp_num and vendor_err is valid.
    // Source: ibv_poll_cq(3).
    if (entry.status != IBV_WC_SUCCESS) [[unlikely]] {
      visit(entry.wr_id, FailedWork{static_cast<WorkStatus>(entry.status), entry.vendor_err});
      continue;
    }
    CompletedWork work;
    // The device sets byte_len for what it wrote here. IBV_WC_RECV is a bit, RDMA_READ a value.
    if ((entry.opcode & IBV_WC_RECV) != 0 || entry.opcode == IBV_WC_RDMA_READ)
      work.bytes = entry.byte_len;
    if ((entry.wc_flags & IBV_WC_WITH_IMM) != 0) work.immediate = be32toh(entry.imm_data);
    visit(entry.wr_id, work);
  }
  return got;
}

/// Why a queue could not be polled, and what its user may do then.
[[nodiscard]] Error poll_error(ibv_cq const& queue, int result, std::string_view remedy) noexcept;

}  // namespace lend
