// SPDX-License-Identifier: MIT OR Apache-2.0
// A round of a halo, as beside_mpi.cpp has it: a row from each of two sides, and one to each. One
// thread.
#include "price_ways.hpp"

#include <cstddef>

namespace lend::bench {

namespace {

constexpr std::size_t row_bytes = 64;  // at 0; received at 128 and 192

bool by_verbs(LoopBack& end) {
  ibv_qp* const sides[]{end.queue_pair, end.queue_pair_beside};
  std::uint64_t address = end.address + 128;
  for (ibv_qp* const side : sides) {
    ibv_sge element{address, row_bytes, end.local_key};
    ibv_recv_wr request{0, nullptr, &element, 1};
    ibv_recv_wr* refused;
    if (ibv_post_recv(side, &request, &refused) != 0) return false;
    address += row_bytes;
  }
  for (ibv_qp* const side : sides) {
    ibv_sge element{end.address, row_bytes, end.local_key};
    ibv_send_wr request;
    request.wr_id = 1;
    request.next = nullptr;
    request.sg_list = &element;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    ibv_send_wr* refused;
    if (ibv_post_send(side, &request, &refused) != 0) return false;
  }
  for (ibv_qp* const side : sides) {
    ibv_wc completions[together];
    for (int left = 2; left > 0;) {
      int const taken = ibv_poll_cq(side->send_cq, together, completions);
      if (taken < 0) return false;
      left -= taken;
    }
  }
  return true;
}

Result<void> exchange_halo(LoopBack& end) {
  PollingScope on_left{end.channel};
  PollingScope on_right{end.beside};
  LEND_TRY(from_left, on_left.post_receive(end.memory.scatter(128, row_bytes)));
  LEND_TRY(from_right, on_right.post_receive(end.memory.scatter(192, row_bytes)));
  LEND_TRYV(on_left.post_send(end.memory.gather(0, row_bytes)));
  LEND_TRYV(on_right.post_send(end.memory.gather(0, row_bytes)));
  LEND_TRYV(from_left.wait());
  LEND_TRYV(from_right.wait());
  LEND_TRYV(on_left.finish());
  return on_right.finish();
}
bool by_scopes(LoopBack& end) {
  return exchange_halo(end).has_value();
}

template <bool (*round)(LoopBack&)>
bool rounds(std::span<LoopBack> ends, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i)
    for (LoopBack& end : ends)
      if (!round(end)) return false;
  return true;
}

}  // namespace

bool halo_by_verbs(std::span<LoopBack> ends, std::uint64_t count) {
  return rounds<by_verbs>(ends, count);
}
bool halo_by_scopes(std::span<LoopBack> ends, std::uint64_t count) {
  return rounds<by_scopes>(ends, count);
}

}  // namespace lend::bench
