// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of libibverbs that lend calls, under their own names: see rdma_core_library.hpp.
#include <infiniband/verbs.h>
#include <verbs/device/rdma_core_library.hpp>

// Macros there, functions here.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

#define LEND_CALL(function, version, ...)                                     \
  lend::verbs::call_loaded<&::function>(lend::verbs::libibverbs(), #function, \
                                        version __VA_OPT__(, ) __VA_ARGS__)

extern "C" {

char const lend::verbs::lend_loads_rdma_core = 1;

int _ibv_query_gid_ex(ibv_context* context, uint32_t port_num, uint32_t gid_index,
                      ibv_gid_entry* entry, uint32_t flags, size_t entry_size) {
  return LEND_CALL(_ibv_query_gid_ex, "IBVERBS_1.11", context, port_num, gid_index, entry, flags,
                   entry_size);
}

void ibv_ack_async_event(ibv_async_event* event) {
  return LEND_CALL(ibv_ack_async_event, "IBVERBS_1.1", event);
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned nevents) {
  return LEND_CALL(ibv_ack_cq_events, "IBVERBS_1.1", cq, nevents);
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return LEND_CALL(ibv_alloc_pd, "IBVERBS_1.1", context);
}

int ibv_close_device(ibv_context* context) {
  return LEND_CALL(ibv_close_device, "IBVERBS_1.1", context);
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  return LEND_CALL(ibv_create_ah, "IBVERBS_1.1", pd, attr);
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port_num) {
  return LEND_CALL(ibv_create_ah_from_wc, "IBVERBS_1.1", pd, wc, grh, port_num);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return LEND_CALL(ibv_create_comp_channel, "IBVERBS_1.0", context);
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int comp_vector) {
  return LEND_CALL(ibv_create_cq, "IBVERBS_1.1", context, cqe, cq_context, channel, comp_vector);
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  return LEND_CALL(ibv_create_qp, "IBVERBS_1.1", pd, qp_init_attr);
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* srq_init_attr) {
  return LEND_CALL(ibv_create_srq, "IBVERBS_1.1", pd, srq_init_attr);
}

int ibv_dealloc_pd(ibv_pd* pd) {
  return LEND_CALL(ibv_dealloc_pd, "IBVERBS_1.1", pd);
}

int ibv_dereg_mr(ibv_mr* mr) {
  return LEND_CALL(ibv_dereg_mr, "IBVERBS_1.1", mr);
}

int ibv_destroy_ah(ibv_ah* ah) {
  return LEND_CALL(ibv_destroy_ah, "IBVERBS_1.1", ah);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return LEND_CALL(ibv_destroy_comp_channel, "IBVERBS_1.0", channel);
}

int ibv_destroy_cq(ibv_cq* cq) {
  return LEND_CALL(ibv_destroy_cq, "IBVERBS_1.1", cq);
}

int ibv_destroy_qp(ibv_qp* qp) {
  return LEND_CALL(ibv_destroy_qp, "IBVERBS_1.1", qp);
}

int ibv_destroy_srq(ibv_srq* srq) {
  return LEND_CALL(ibv_destroy_srq, "IBVERBS_1.1", srq);
}

void ibv_free_device_list(ibv_device** list) {
  return LEND_CALL(ibv_free_device_list, "IBVERBS_1.1", list);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return LEND_CALL(ibv_get_async_event, "IBVERBS_1.1", context, event);
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return LEND_CALL(ibv_get_cq_event, "IBVERBS_1.1", channel, cq, cq_context);
}

__be64 ibv_get_device_guid(ibv_device* device) {
  return LEND_CALL(ibv_get_device_guid, "IBVERBS_1.1", device);
}

int ibv_get_device_index(ibv_device* device) {
  return LEND_CALL(ibv_get_device_index, "IBVERBS_1.9", device);
}

ibv_device** ibv_get_device_list(int* num_devices) {
  return LEND_CALL(ibv_get_device_list, "IBVERBS_1.1", num_devices);
}

int ibv_init_ah_from_wc(ibv_context* context, uint8_t port_num, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* ah_attr) {
  return LEND_CALL(ibv_init_ah_from_wc, "IBVERBS_1.1", context, port_num, wc, grh, ah_attr);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) {
  return LEND_CALL(ibv_modify_qp, "IBVERBS_1.1", qp, attr, attr_mask);
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* srq_attr, int srq_attr_mask) {
  return LEND_CALL(ibv_modify_srq, "IBVERBS_1.1", srq, srq_attr, srq_attr_mask);
}

ibv_context* ibv_open_device(ibv_device* device) {
  return LEND_CALL(ibv_open_device, "IBVERBS_1.1", device);
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return LEND_CALL(ibv_qp_to_qp_ex, "IBVERBS_1.6", qp);
}

int ibv_query_device(ibv_context* context, ibv_device_attr* device_attr) {
  return LEND_CALL(ibv_query_device, "IBVERBS_1.1", context, device_attr);
}

int ibv_query_gid(ibv_context* context, uint8_t port_num, int index, ibv_gid* gid) {
  return LEND_CALL(ibv_query_gid, "IBVERBS_1.1", context, port_num, index, gid);
}

int ibv_query_pkey(ibv_context* context, uint8_t port_num, int index, __be16* pkey) {
  return LEND_CALL(ibv_query_pkey, "IBVERBS_1.1", context, port_num, index, pkey);
}

int ibv_query_port(ibv_context* context, uint8_t port_num, _compat_ibv_port_attr* port_attr) {
  return LEND_CALL(ibv_query_port, "IBVERBS_1.1", context, port_num, port_attr);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr) {
  return LEND_CALL(ibv_query_qp, "IBVERBS_1.1", qp, attr, attr_mask, init_attr);
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* srq_attr) {
  return LEND_CALL(ibv_query_srq, "IBVERBS_1.1", srq, srq_attr);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access) {
  return LEND_CALL(ibv_reg_dmabuf_mr, "IBVERBS_1.12", pd, offset, length, iova, fd, access);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return LEND_CALL(ibv_reg_mr, "IBVERBS_1.1", pd, addr, length, access);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
  return LEND_CALL(ibv_resize_cq, "IBVERBS_1.1", cq, cqe);
}

}  // extern "C"
