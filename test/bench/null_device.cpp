// SPDX-License-Identifier: MIT OR Apache-2.0
// A ring of what was posted, from which it is polled. One at a time, one thread.
#include "null_device.hpp"

#include <array>
#include <cstdint>

namespace lend::bench {

namespace {

struct Done {
  std::uint64_t id;
  std::uint32_t queue_pair;
  std::uint32_t bytes;
  ibv_wc_opcode opcode;
};

constexpr std::uint32_t ring_size = 1024;  // a power of two, above any depth in use here

std::array<Done, ring_size> ring;
std::uint32_t posted = 0;  // both wrap
std::uint32_t polled = 0;
std::array<std::uint64_t, ring_size> receives;  // of a shared receive queue
std::uint32_t receives_posted = 0;
std::uint32_t receives_taken = 0;

ibv_wc_opcode opcode_of(ibv_wr_opcode opcode) noexcept {
  if (opcode == IBV_WR_RDMA_READ) return IBV_WC_RDMA_READ;
  return opcode == IBV_WR_RDMA_WRITE ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
}

int post_send(ibv_qp* queue_pair, ibv_send_wr* request, ibv_send_wr**) noexcept {
  for (; request != nullptr; request = request->next)
    if ((request->send_flags & IBV_SEND_SIGNALED) != 0)
      ring[posted++ % ring_size] = {request->wr_id, queue_pair->qp_num, request->sg_list->length,
                                    opcode_of(request->opcode)};
  return 0;
}

int post_recv(ibv_qp* queue_pair, ibv_recv_wr* request, ibv_recv_wr**) noexcept {
  for (; request != nullptr; request = request->next)
    ring[posted++ % ring_size] = {request->wr_id, queue_pair->qp_num, request->sg_list->length,
                                  IBV_WC_RECV};
  return 0;
}

int post_srq_recv(ibv_srq*, ibv_recv_wr* request, ibv_recv_wr**) noexcept {
  for (; request != nullptr; request = request->next)
    receives[receives_posted++ % ring_size] = request->wr_id;
  return 0;
}

int poll_cq(ibv_cq*, int count, ibv_wc* target) noexcept {
  int taken = 0;
  for (; taken < count && polled != posted; ++taken) {
    Done const& done = ring[polled++ % ring_size];
    ibv_wc& entry = target[taken];
    entry.wr_id = done.id;
    entry.status = IBV_WC_SUCCESS;
    entry.opcode = done.opcode;
    entry.byte_len = done.bytes;
    entry.qp_num = done.queue_pair;
    entry.wc_flags = 0;
  }
  return taken;
}

}  // namespace

void make_null(ibv_context& context) noexcept {
  context.ops.post_send = &post_send;
  context.ops.post_recv = &post_recv;
  context.ops.post_srq_recv = &post_srq_recv;
  context.ops.poll_cq = &poll_cq;
}

void null_arrival(std::uint32_t queue_pair, std::uint32_t bytes) noexcept {
  ring[posted++ % ring_size] = {receives[receives_taken++ % ring_size], queue_pair, bytes,
                                IBV_WC_RECV};
}

void forget_null_receives() noexcept {
  receives_taken = receives_posted;
}

}  // namespace lend::bench
