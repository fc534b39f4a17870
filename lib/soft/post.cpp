// SPDX-License-Identifier: MIT OR Apache-2.0
// Posting: checks at the door, and the receive queue.
#include "post.hpp"

#include "awaited.hpp"
#include "datagram.hpp"
#include "engine.hpp"
#include "queue_pair.hpp"
#include "receive_ring.hpp"

#include <cerrno>
#include <mutex>

namespace lend::soft {
namespace {

std::uint64_t length_of(ibv_send_wr const& wr) noexcept {
  std::uint64_t total = 0;
  for (int i = 0; i < wr.num_sge; ++i) total += wr.sg_list[i].length;
  return total;
}

int check(QueuePair const& qp, ibv_send_wr const& wr) noexcept {
  if (wr.opcode > IBV_WR_ATOMIC_FETCH_AND_ADD || (qp.operations >> wr.opcode & 1) == 0)
    return EINVAL;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.made_with.cap.max_send_sge)
    return EINVAL;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    if (wr.opcode == IBV_WR_RDMA_READ || is_atomic(wr.opcode)) return EINVAL;
    if (length_of(wr) > qp.made_with.cap.max_inline_data) return EINVAL;
  }
  // No room for the result. Source: rdma-core providers/rxe/rxe.c, validate_send_wr().
  if (is_atomic(wr.opcode) && length_of(wr) < sizeof(std::uint64_t)) return EINVAL;
  if (qp.qp_type == IBV_QPT_UD && wr.wr.ud.ah == nullptr) return EINVAL;
  return 0;
}

int post_one(QueuePair& qp, ibv_send_wr const& wr) noexcept {
  auto const mode = qp.mode.load(std::memory_order_relaxed);
  if (mode < IBV_QPS_RTS) return EINVAL;  // SQD, SQE and ERR are behind it
  if (auto const error = check(qp, wr); error != 0) return error;
  // Acquire pairs with poll_cq: a freed slot is read no more.
  if (qp.send_posted - qp.send_freed.load(std::memory_order_acquire) >= qp.send_depth)
    return ENOMEM;
  Work work{
      .id = wr.wr_id,
      .remote_address = wr.wr.rdma.remote_addr,
      .remote_key = wr.wr.rdma.rkey,
      .immediate = wr.imm_data,
      .position = qp.send_posted++,
      .piece_count = static_cast<std::uint16_t>(wr.num_sge),
      .opcode = static_cast<std::uint8_t>(wr.opcode),
      .flags = static_cast<std::uint8_t>(wr.send_flags | qp.flags),
      .pieces = wr.sg_list,
      .fault = nullptr,  // see order_fault()
      .atomic = {},
  };
  if (is_atomic(wr.opcode)) {
    work.remote_key = wr.wr.atomic.rkey;
    work.atomic = {wr.wr.atomic.compare_add, wr.wr.atomic.swap};
  } else if (qp.qp_type == IBV_QPT_UD) {
    work.datagram = destination_of(qp, wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
  }
  submit(qp, work);
  return 0;
}

/// Leaves `wr` at the first that was not taken.
[[gnu::always_inline]] inline int post_all(QueuePair& qp, ibv_send_wr*& wr) noexcept {
  std::lock_guard const guard{qp.send_lock};
  if (qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR) enter_error(qp);
  if (qp.stall.why != Stall::Why::none) retry_pending(qp);
  int error = 0;
  while (wr != nullptr && (error = post_one(qp, *wr)) == 0) wr = wr->next;
  return error;
}

int receive_one(QueuePair& qp, ibv_recv_wr const& wr) noexcept {
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.made_with.cap.max_recv_sge)
    return EINVAL;
  auto const position = qp.receive_posted.load(std::memory_order_relaxed);
  // Acquire pairs with poll_cq: a completed slot is read no more.
  if (position - qp.receive_done.load(std::memory_order_acquire) >= qp.receive_depth) return ENOMEM;
  auto& shared = qp.shared_receive_at(position);
  if (auto const error = write_receive(qp.owner(), wr, qp.posted_at(position), shared); error != 0)
    return error;
  // First counted, then valid: poll_cq takes no completion of a receive that was not counted.
  // Release pairs with poll_cq's acquire.
  qp.receive_posted.store(position + 1, std::memory_order_release);
  make_valid(shared, position);
  // The next one's line, for writing: fetched now, not when the post after the next waits for it.
  __builtin_prefetch(&qp.shared_receive_at(position + 1), 1);
  return 0;
}

}  // namespace

int post_send(ibv_qp* queue_pair, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  __builtin_prefetch(qp.next_receive.load(std::memory_order_relaxed));
  auto& context = qp.owner();
  int error = context.is_ours() ? 0 : context.check_ours();
  if (error == 0) {
    if (qp.has_builders) qp.draft_lock.lock();
    error = post_all(qp, wr);
    if (qp.has_builders) qp.draft_lock.unlock();
  }
  if (error != 0) {
    *bad = wr;
    errno = error;
  }
  return error;
}

int post_recv(ibv_qp* queue_pair, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  auto& qp = *static_cast<QueuePair*>(queue_pair);
  auto& context = qp.owner();
  int error = context.is_ours() ? 0 : context.check_ours();
  if (error == 0) {
    std::lock_guard const guard{qp.receive_lock};
    auto const mode = qp.mode.load(std::memory_order_relaxed);
    if (mode == IBV_QPS_RESET || qp.srq != nullptr) error = EINVAL;
    while (error == 0 && wr != nullptr && (error = receive_one(qp, *wr)) == 0) wr = wr->next;
    // What is posted in ERR is flushed at once; if a peer broke it unnoticed, by the poll that this
    // wakes. Relaxed: who breaks it later wakes for itself.
    if (mode == IBV_QPS_ERR || qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_ERR)
        [[unlikely]]
      notify_of_flush(qp.receives());
    // The end of a list that was cut short leaves its sender to the timer: to ask there costs more.
    else if (error == 0 && qp.shared->is_awaited.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_sender(qp);
  }
  if (error != 0) {
    *bad = wr;
    errno = error;
  }
  return error;
}

}  // namespace lend::soft
