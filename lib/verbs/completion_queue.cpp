// SPDX-License-Identifier: MIT OR Apache-2.0
// The only caller of ibv_poll_cq. One thread at a time.
#include <lend/verbs/completion_queue.hpp>
#include <verbs/handles.hpp>
#include <verbs/limits.hpp>

#include <endian.h>

#include <algorithm>

namespace lend {

namespace {

/// Taken from the device at a time: 768 bytes of stack.
constexpr std::size_t chunk = 16;

// Status first: on failure nothing but wr_id, status, qp_num and vendor_err is valid.
// Source: ibv_poll_cq(3).
void convert(ibv_wc const& source, Completion& target) noexcept {
  target.id = source.wr_id;
  if (source.status != IBV_WC_SUCCESS) [[unlikely]] {
    target.outcome = FailedWork{static_cast<WorkStatus>(source.status), source.vendor_err};
    return;
  }
  CompletedWork work;
  // The device sets byte_len for what it wrote here. IBV_WC_RECV is a bit, RDMA_READ a value.
  if ((source.opcode & IBV_WC_RECV) != 0 || source.opcode == IBV_WC_RDMA_READ)
    work.bytes = source.byte_len;
  if ((source.wc_flags & IBV_WC_WITH_IMM) != 0) work.immediate = be32toh(source.imm_data);
  target.outcome = work;
}

[[gnu::cold, gnu::noinline]] Error poll_error(ibv_cq const& queue, int result) {
  return Error{Errc::system_failed,
               "ibv_poll_cq answered " + std::to_string(result) + " on a queue of " +
                   std::to_string(queue.cqe) +
                   " entries: it overran or the device failed; no work has ended by it. Flush and "
                   "destroy the queue pairs that use it."};
}

}  // namespace

Result<CompletionQueue> CompletionQueue::create(Context const& context, std::uint32_t depth) {
  auto const limit = context.limits().completions_max;
  if (depth == 0 || std::cmp_greater(depth, limit))
    return beyond_limit("completion queue depth", depth, static_cast<std::uint64_t>(limit),
                        "completions_max", context.name());
  auto const& parent = context.handle_;
  Provider const& provider = parent->provider();
  errno = 0;
  RawHandle<ibv_cq, &Provider::destroy_cq> raw{
      provider,
      provider.create_cq(parent->raw.get(), static_cast<int>(depth), nullptr, nullptr, 0)};
  int const error = errno;
  if (!raw) return completion_queue_error(*parent, depth, error);
  int const granted = raw.get()->cqe;
  if (std::cmp_less(granted, depth))
    return Error{Errc::exhausted, context.name() + " granted " + std::to_string(granted) + " of " +
                                      std::to_string(depth) +
                                      " completion queue entries; ask for less"};
  return CompletionQueue{std::make_shared<CompletionQueueHandle>(
      parent, std::move(raw), static_cast<std::uint32_t>(granted))};
}

Result<std::span<Completion>> CompletionQueue::poll(std::span<Completion> target) noexcept {
  ibv_cq* const queue = handle_->raw.get();
  ibv_wc entries[chunk];  // filled by the device; zeroing them would cost more than the poll
  std::size_t taken = 0;
  while (taken < target.size()) {
    auto const wanted = std::min(chunk, target.size() - taken);
    int const got = ibv_poll_cq(queue, static_cast<int>(wanted), entries);
    if (got < 0) [[unlikely]] {
      if (taken == 0) return poll_error(*queue, got);
      break;  // what was taken is real; the next poll meets the failure again
    }
    auto const count = static_cast<std::size_t>(got);
    for (std::size_t i = 0; i < count; ++i) convert(entries[i], target[taken + i]);
    taken += count;
    if (count < wanted) break;
  }
  return target.first(taken);
}

std::uint32_t CompletionQueue::depth() const noexcept {
  return handle_->depth;
}

ibv_cq* CompletionQueue::native() const noexcept {
  return handle_->raw.get();
}

}  // namespace lend
