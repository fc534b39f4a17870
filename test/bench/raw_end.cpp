// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts of raw verbs, described as lend describes its own. One thread.
#include "raw_end.hpp"

#include <sched.h>
#include <verbs/memory/region_state.hpp>

namespace lend::bench {

RawEnd::RawEnd(ibv_qp* queue_pair, MemoryRegion const& memory) : queue_pair_{queue_pair} {
  verbs::RegionState const& state = *memory.gather().region;
  address_ = reinterpret_cast<std::uint64_t>(state.address);
  key_ = state.local_key;
}

RawEnd::RawEnd(End& end) : RawEnd{end.queue_pair, end.memory} {
  inline_bytes_ = end.channel.inline_bytes();
  one_core_ = end.one_core;
  remote_address_ = end.remote.address();
  remote_key_ = end.remote.key();
}

RawEnd::RawEnd(End& end, DatagramChannel const& channel, To to) : RawEnd{end} {
  queue_pair_ = channel.native();
  inline_bytes_ = channel.inline_bytes();
  to_ = to;
}

bool RawEnd::receive(std::size_t place, std::size_t bytes) {
  ibv_sge element{address_ + place, static_cast<std::uint32_t>(bytes), key_};
  ibv_recv_wr request;
  request.wr_id = 0;
  request.next = nullptr;
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* refused;
  return ibv_post_recv(queue_pair_, &request, &refused) == 0;
}

bool RawEnd::post(ibv_wr_opcode opcode, std::size_t place, std::size_t bytes) {
  bool const is_inline = opcode != IBV_WR_RDMA_READ && bytes <= inline_bytes_;
  ibv_sge element{address_ + place, static_cast<std::uint32_t>(bytes), key_};
  ibv_send_wr request;  // not initialised as a whole: 128 bytes for every message
  request.wr_id = 0;
  request.next = nullptr;
  request.sg_list = &element;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED | (is_inline ? unsigned{IBV_SEND_INLINE} : 0u);
  if (to_.address != nullptr) {
    request.wr.ud = {to_.address, to_.number, to_.key};
  } else {
    request.wr.rdma.remote_addr = remote_address_;
    request.wr.rdma.rkey = remote_key_;
  }
  ibv_send_wr* refused;
  return ibv_post_send(queue_pair_, &request, &refused) == 0;
}

bool RawEnd::send(std::size_t place, std::size_t bytes) {
  return post(IBV_WR_SEND, place, bytes);
}
bool RawEnd::write(std::size_t place, std::size_t bytes) {
  return post(IBV_WR_RDMA_WRITE, place, bytes);
}
bool RawEnd::read(std::size_t place, std::size_t bytes) {
  return post(IBV_WR_RDMA_READ, place, bytes);
}

RawEnd::Seen RawEnd::poll() {
  ibv_wc completions[16];
  int const taken = ibv_poll_cq(queue_pair_->send_cq, 16, completions);
  if (taken == 0 && one_core_) sched_yield();
  Seen seen{0, 0, taken < 0};
  for (int i = 0; i < taken; ++i) {
    if (completions[i].status != IBV_WC_SUCCESS)
      seen.failed = true;
    else
      ++(completions[i].opcode == IBV_WC_RECV ? seen.receives : seen.others);
  }
  return seen;
}

}  // namespace lend::bench
