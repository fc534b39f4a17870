// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of librdmacm that lend calls, under their own names: see
// verbs/device/rdma_core_library.hpp.
#include <rdma/rdma_cma.h>
#include <verbs/device/rdma_core_library.hpp>

#define LEND_CALL(function, version, ...)                                    \
  lend::verbs::call_loaded<&::function>(lend::verbs::librdmacm(), #function, \
                                        version __VA_OPT__(, ) __VA_ARGS__)

extern "C" {

int rdma_accept(rdma_cm_id* id, rdma_conn_param* conn_param) {
  return LEND_CALL(rdma_accept, "RDMACM_1.0", id, conn_param);
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  return LEND_CALL(rdma_ack_cm_event, "RDMACM_1.0", event);
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* addr) {
  return LEND_CALL(rdma_bind_addr, "RDMACM_1.0", id, addr);
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* conn_param) {
  return LEND_CALL(rdma_connect, "RDMACM_1.0", id, conn_param);
}

rdma_event_channel* rdma_create_event_channel() {
  return LEND_CALL(rdma_create_event_channel, "RDMACM_1.0");
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space ps) {
  return LEND_CALL(rdma_create_id, "RDMACM_1.0", channel, id, context, ps);
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  return LEND_CALL(rdma_destroy_event_channel, "RDMACM_1.0", channel);
}

int rdma_destroy_id(rdma_cm_id* id) {
  return LEND_CALL(rdma_destroy_id, "RDMACM_1.0", id);
}

int rdma_disconnect(rdma_cm_id* id) {
  return LEND_CALL(rdma_disconnect, "RDMACM_1.0", id);
}

int rdma_establish(rdma_cm_id* id) {
  return LEND_CALL(rdma_establish, "RDMACM_1.2", id);
}

char const* rdma_event_str(rdma_cm_event_type event) {
  return LEND_CALL(rdma_event_str, "RDMACM_1.0", event);
}

void rdma_freeaddrinfo(rdma_addrinfo* res) {
  return LEND_CALL(rdma_freeaddrinfo, "RDMACM_1.0", res);
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return LEND_CALL(rdma_get_cm_event, "RDMACM_1.0", channel, event);
}

int rdma_getaddrinfo(char const* node, char const* service, rdma_addrinfo const* hints,
                     rdma_addrinfo** res) {
  return LEND_CALL(rdma_getaddrinfo, "RDMACM_1.0", node, service, hints, res);
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* qp_attr, int* qp_attr_mask) {
  return LEND_CALL(rdma_init_qp_attr, "RDMACM_1.2", id, qp_attr, qp_attr_mask);
}

int rdma_listen(rdma_cm_id* id, int backlog) {
  return LEND_CALL(rdma_listen, "RDMACM_1.0", id, backlog);
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return LEND_CALL(rdma_migrate_id, "RDMACM_1.0", id, channel);
}

int rdma_reject(rdma_cm_id* id, void const* private_data, uint8_t private_data_len) {
  return LEND_CALL(rdma_reject, "RDMACM_1.0", id, private_data, private_data_len);
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* src_addr, sockaddr* dst_addr, int timeout_ms) {
  return LEND_CALL(rdma_resolve_addr, "RDMACM_1.0", id, src_addr, dst_addr, timeout_ms);
}

int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  return LEND_CALL(rdma_resolve_route, "RDMACM_1.0", id, timeout_ms);
}

int rdma_set_option(rdma_cm_id* id, int level, int optname, void* optval, size_t optlen) {
  return LEND_CALL(rdma_set_option, "RDMACM_1.0", id, level, optname, optval, optlen);
}

}  // extern "C"
