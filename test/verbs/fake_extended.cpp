// SPDX-License-Identifier: MIT OR Apache-2.0
// The fake provider's extended calls: what the device says beyond ibv_query_device(3), its clock,
// and completion queues that are read field by field.
#include "verbs/fake_provider.hpp"

#include <cerrno>
#include <memory>

namespace lend::test {

namespace {

/// The completion that is read.
ibv_wc current;
std::uint64_t current_time = 0;

int take_next(ibv_cq_ex* queue) {
  int const got = ibv_poll_cq(ibv_cq_ex_to_cq(queue), 1, &current);
  if (got <= 0) return got == 0 ? ENOENT : -got;
  queue->wr_id = current.wr_id;
  queue->status = current.status;
  current_time = 0;
  if (fake().times.empty()) return 0;
  current_time = fake().times.front();
  fake().times.pop_front();
  return 0;
}

void fill_readers(ibv_cq_ex& queue) {
  queue.start_poll = [](ibv_cq_ex* reader, ibv_poll_cq_attr*) {
    int const error = take_next(reader);
    if (error == 0) ++fake().polls_not_ended;
    return error;
  };
  queue.next_poll = &take_next;
  queue.end_poll = [](ibv_cq_ex*) { --fake().polls_not_ended; };
  queue.read_opcode = [](ibv_cq_ex*) { return current.opcode; };
  queue.read_vendor_err = [](ibv_cq_ex*) { return current.vendor_err; };
  queue.read_byte_len = [](ibv_cq_ex*) { return current.byte_len; };
  queue.read_imm_data = [](ibv_cq_ex*) { return current.imm_data; };
  queue.read_qp_num = [](ibv_cq_ex*) { return current.qp_num; };
  queue.read_src_qp = [](ibv_cq_ex*) { return current.src_qp; };
  queue.read_wc_flags = [](ibv_cq_ex*) { return current.wc_flags; };
  queue.read_slid = [](ibv_cq_ex*) { return std::uint32_t{current.slid}; };
  queue.read_sl = [](ibv_cq_ex*) { return current.sl; };
  queue.read_dlid_path_bits = [](ibv_cq_ex*) { return current.dlid_path_bits; };
  queue.read_completion_ts = [](ibv_cq_ex*) { return current_time; };
}

int query_device_ex(ibv_context*, ibv_device_attr_ex* attributes) {
  *attributes = {};
  attributes->completion_timestamp_mask = fake().device.timestamp_mask;
  attributes->hca_core_clock = fake().device.clock_kilohertz;
  attributes->odp_caps.general_caps =
      fake().device.has_paging_on_demand ? unsigned{IBV_ODP_SUPPORT} : 0u;
  return 0;
}

int query_rt_values_ex(ibv_context*, ibv_values_ex* values) {
  if (fake().fails("ibv_query_rt_values_ex")) return -fake().fail_errno;  // as mlx5 does
  *values = fake().clock;
  return 0;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  if (fake().fails("ibv_create_cq_ex")) return nullptr;
  auto const queue = std::make_shared<ibv_cq_ex>();
  queue->context = context;
  queue->cqe = static_cast<int>(wanted->cqe) - fake().device.completions_withheld;
  fill_readers(*queue);
  fake().make(ibv_cq_ex_to_cq(queue.get()), "completion queue", {context}, queue);
  return queue.get();
}

ibv_ah* create_ah_from_wc(ibv_pd* domain, ibv_wc*, ibv_grh*, std::uint8_t) {
  if (fake().fails("ibv_create_ah_from_wc")) return nullptr;
  auto const handle = std::make_shared<ibv_ah>();
  handle->context = domain->context;
  handle->pd = domain;
  return fake().make(handle.get(), "address handle", {domain}, handle);
}

ibv_mw* alloc_mw(ibv_pd* domain, ibv_mw_type type) {
  if (fake().fails("ibv_alloc_mw")) return nullptr;
  auto const window = std::make_shared<ibv_mw>();
  window->context = domain->context;
  window->pd = domain;
  window->type = type;
  return fake().make(window.get(), "window", {domain}, window);
}

int dealloc_mw(ibv_mw* window) {
  return fake().end(window);
}

}  // namespace

void add_extended_calls(verbs::Provider& table) {
  table.query_device_ex = &query_device_ex;
  table.query_rt_values_ex = &query_rt_values_ex;
  table.create_cq_ex = &create_cq_ex;
  table.create_ah_from_wc = &create_ah_from_wc;
  table.alloc_mw = &alloc_mw;
  table.dealloc_mw = &dealloc_mw;
}

}  // namespace lend::test
