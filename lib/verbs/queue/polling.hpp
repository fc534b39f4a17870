// SPDX-License-Identifier: MIT OR Apache-2.0
// From completions of verbs to those of lend. The only caller of ibv_poll_cq and of
// ibv_start_poll. Inline, since a call
// costs as much as a tenth of a poll. One thread at a time.
#pragma once

#include <lend/base/error.hpp>
#include <lend/verbs/completion.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/device_clock.hpp>
#include <verbs/device/provider.hpp>

#include <endian.h>

#include <cerrno>
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
  /// The last of `count` becomes the first.
  void keep_last(int count) noexcept { entries_[0] = entries_[count - 1]; }

 private:
  ibv_wc entries_[poll_batch];
};

/// The same of a queue whose completions have times, read field by field.
/// Source: ibv_create_cq_ex(3).
class TimedCompletions {
 public:
  TimedCompletions() noexcept {}  // NOLINT(cppcoreguidelines-pro-type-member-init)

  /// At least one is wanted.
  [[nodiscard]] int poll(ibv_cq_ex& queue, int wanted) noexcept {
    ibv_poll_cq_attr none{};
    int const error = ibv_start_poll(&queue, &none);
    if (error == ENOENT) return 0;
    if (error != 0) return error > 0 ? -error : error;
    int got = 0;
    // What was taken is real; after a failure the next poll meets it again.
    do read(queue, got++);
    while (got < wanted && ibv_next_poll(&queue) == 0);
    ibv_end_poll(&queue);
    return got;
  }
  [[nodiscard]] CompletionEntry operator[](int index) const noexcept {
    return CompletionEntry{entries_[index]};
  }
  /// Of a completion that succeeded.
  [[nodiscard]] DeviceTime time_of(int index) const noexcept { return {times_[index]}; }

 private:
  void read(ibv_cq_ex& queue, int index) noexcept {
    ibv_wc& entry = entries_[index];
    entry.wr_id = queue.wr_id;
    entry.status = queue.status;
    entry.qp_num = ibv_wc_read_qp_num(&queue);
    if (entry.status != IBV_WC_SUCCESS) {
      entry.vendor_err = ibv_wc_read_vendor_err(&queue);
      return;
    }
    entry.opcode = ibv_wc_read_opcode(&queue);
    entry.byte_len = ibv_wc_read_byte_len(&queue);
    entry.wc_flags = ibv_wc_read_wc_flags(&queue);
    entry.imm_data = ibv_wc_read_imm_data(&queue);  // or the key of a window: a union
    entry.src_qp = ibv_wc_read_src_qp(&queue);
    entry.slid = static_cast<std::uint16_t>(ibv_wc_read_slid(&queue));
    entry.sl = ibv_wc_read_sl(&queue);
    entry.dlid_path_bits = ibv_wc_read_dlid_path_bits(&queue);
    times_[index] = ibv_wc_read_completion_ts(&queue);
  }

  ibv_wc entries_[poll_batch];
  std::uint64_t times_[poll_batch];
};

/// Why a queue could not be polled, and what its user may do then: the provider's reason where it
/// has one. Before another verb is called, which might change that.
[[nodiscard]] Error poll_error(CompletionQueue const& queue, int result,
                               std::string_view remedy) noexcept;

}  // namespace lend::verbs
