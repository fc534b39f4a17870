// SPDX-License-Identifier: MIT OR Apache-2.0
// From completions of verbs to those of lend. The only caller of ibv_poll_cq. Inline, since a call
// costs as much as a tenth of a poll. One thread at a time.
#pragma once

#include <lend/base/error.hpp>
#include <lend/verbs/completion.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/datagram.hpp>
#include <verbs/provider.hpp>

#include <endian.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lend::verbs {

/// Completions taken from the device at a time: 768 bytes of stack.
constexpr int poll_batch = 16;

/// What a completion says, read when asked for.
class CompletionEntry {
 public:
  explicit CompletionEntry(ibv_wc const& entry) noexcept : entry_{&entry} {}

  [[nodiscard]] std::uint64_t id() const noexcept { return entry_->wr_id; }
  [[nodiscard]] std::uint32_t queue_pair_number() const noexcept { return entry_->qp_num; }
  // Status first: on failure nothing but wr_id, status, qp_num and vendor_err is valid.
  // Source: ibv_poll_cq(3).
  [[nodiscard]] bool has_failed() const noexcept { return entry_->status != IBV_WC_SUCCESS; }
  [[nodiscard]] FailedWork failure() const noexcept {
    return {static_cast<WorkStatus>(entry_->status), entry_->vendor_err};
  }
  /// What the device wrote here: of receives and reads that succeeded.
  [[nodiscard]] std::uint32_t bytes() const noexcept { return entry_->byte_len; }
  /// Of a receive: a write consumed it for its immediate. bytes() are those of the write, which are
  /// elsewhere. Source: ibv_poll_cq(3), IBV_WC_RECV_RDMA_WITH_IMM.
  [[nodiscard]] bool is_by_write() const noexcept {
    return entry_->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  }
  [[nodiscard]] bool is_receive() const noexcept { return (entry_->opcode & IBV_WC_RECV) != 0; }
  /// Whether bytes() is valid. IBV_WC_RECV is a bit, RDMA_READ a value.
  [[nodiscard]] bool has_bytes() const noexcept {
    return is_receive() || entry_->opcode == IBV_WC_RDMA_READ;
  }
  /// Of receives of datagrams that succeeded.
  [[nodiscard]] DatagramSender sender() const noexcept {
    return {QueuePairNumber::truncated(entry_->src_qp), entry_->slid, entry_->sl,
            entry_->dlid_path_bits, (entry_->wc_flags & IBV_WC_GRH) != 0};
  }
  /// Host order; of receives that succeeded. SoftRoCE flags one on the send that carried it, too.
  /// Source: Linux drivers/infiniband/sw/rxe/rxe_comp.c, make_send_cqe().
  [[nodiscard]] std::optional<std::uint32_t> immediate() const noexcept {
    if ((entry_->wc_flags & IBV_WC_WITH_IMM) == 0) return std::nullopt;
    return be32toh(entry_->imm_data);
  }

  /// Of receives that succeeded: the message ended the window of this key.
  [[nodiscard]] bool has_returned() const noexcept {
    return (entry_->wc_flags & IBV_WC_WITH_INV) != 0;
  }
  [[nodiscard]] std::uint32_t returned() const noexcept { return entry_->invalidated_rkey; }

 private:
  ibv_wc const* entry_;
};

/// Completions as the device wrote them; never zeroed, which would cost more than the poll.
class PolledCompletions {
 public:
  PolledCompletions() noexcept {}  // NOLINT(cppcoreguidelines-pro-type-member-init)

  /// Polls for up to `wanted` completions, at most poll_batch. Answers how many, or what
  /// ibv_poll_cq(3) answered if negative.
  [[nodiscard]] int poll(ibv_cq& queue, int wanted) noexcept {
    return ibv_poll_cq(&queue, wanted, entries_);
  }
  [[nodiscard]] CompletionEntry operator[](int index) const noexcept {
    return CompletionEntry{entries_[index]};
  }

 private:
  ibv_wc entries_[poll_batch];
};

/// Why a queue could not be polled, and what its user may do then: the provider's reason where it
/// has one. Before another verb is called, which might change that.
[[nodiscard]] Error poll_error(CompletionQueue const& queue, int result,
                               std::string_view remedy) noexcept;

}  // namespace lend::verbs
