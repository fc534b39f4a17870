// SPDX-License-Identifier: MIT OR Apache-2.0
// The provider seam over the real libibverbs. Any thread.
//
// ibv_fork_init() is not called. It must precede every registration of the process, so it is the
// program's to call; it takes whole pages of registered memory away from children, bytes beside the
// caller's included; and a kernel that copies pinned pages on fork makes it unneeded. A program
// that forks on an older one calls it first or sets IBV_FORK_SAFE.
// Source: ibv_fork_init(3), ibv_is_fork_initialized(3); rdma-core pull request 1431.
#include <base/paging.hpp>
#include <verbs/device/provider.hpp>

#include <sys/mman.h>

#include <cerrno>

namespace lend::verbs {

namespace {

// verbs.h makes a macro of this name; the exported function would fill an older, shorter struct.
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  return ibv_query_port(context, port, attributes);
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                 ibv_gid_entry* entry) {
  return ibv_query_gid_ex(context, port, index, entry, 0);
}

int query_device_ex(ibv_context* context, ibv_device_attr_ex* attributes) {
  return ibv_query_device_ex(context, nullptr, attributes);
}

int advise_mr(ibv_pd* domain, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* elements,
              std::uint32_t count) {
  return ibv_advise_mr(domain, advice, flags, elements, count);
}

ibv_mw* alloc_mw(ibv_pd* domain, ibv_mw_type type) {
  return ibv_alloc_mw(domain, type);
}

int dealloc_mw(ibv_mw* window) {
  return ibv_dealloc_mw(window);
}

// Whole pages of their own, so that pinning and fork affect no other bytes.
void* allocate(ibv_context*, std::size_t length, AllocationOptions const& options) {
  auto const whole = base::whole_pages(length, options.pages);
  void* const address = base::map_pages(-1, whole, options.pages);
  if (address == nullptr) return nullptr;
  auto const error = base::settle_pages(address, whole, options, false);
  if (error == 0) return address;
  ::munmap(address, whole);
  errno = error;
  return nullptr;
}

void* allocate_apart(ibv_context* context, std::size_t length) {
  return allocate(context, length, {});
}

void release(ibv_context*, void* address, std::size_t length) {
  ::munmap(address, length);
}

char const* last_reason() {
  return nullptr;
}

constinit Provider const table{
    .name = "rdma-core",
    .is_soft = false,
    .get_device_list = &::ibv_get_device_list,
    .free_device_list = &::ibv_free_device_list,
    .get_device_guid = &::ibv_get_device_guid,
    .get_device_index = &::ibv_get_device_index,
    .open_device = &::ibv_open_device,
    .close_device = &::ibv_close_device,
    .query_device = &::ibv_query_device,
    .query_port = &query_port,
    .query_gid_ex = &query_gid_ex,
    .query_device_ex = &query_device_ex,
    .query_rt_values_ex = &::ibv_query_rt_values_ex,
    .query_pkey = &::ibv_query_pkey,
    .get_async_event = &::ibv_get_async_event,
    .ack_async_event = &::ibv_ack_async_event,
    .alloc_pd = &::ibv_alloc_pd,
    .dealloc_pd = &::ibv_dealloc_pd,
    .reg_mr = &::ibv_reg_mr,  // not the macro: it only adds optional access flags, unused here
    .reg_dmabuf_mr = &::ibv_reg_dmabuf_mr,
    .dereg_mr = &::ibv_dereg_mr,
    .reg_shown = nullptr,
    .show = nullptr,
    .hide = nullptr,
    .advise_mr = &advise_mr,
    .alloc_mw = &alloc_mw,
    .dealloc_mw = &dealloc_mw,
    .create_comp_channel = &::ibv_create_comp_channel,
    .destroy_comp_channel = &::ibv_destroy_comp_channel,
    .get_cq_event = &::ibv_get_cq_event,
    .ack_cq_events = &::ibv_ack_cq_events,
    .create_cq = &::ibv_create_cq,
    .create_cq_ex = &::ibv_create_cq_ex,
    .destroy_cq = &::ibv_destroy_cq,
    .create_srq = &::ibv_create_srq,
    .modify_srq = &::ibv_modify_srq,
    .destroy_srq = &::ibv_destroy_srq,
    .create_qp = &::ibv_create_qp,
    .modify_qp = &::ibv_modify_qp,
    .query_qp = &::ibv_query_qp,
    .destroy_qp = &::ibv_destroy_qp,
    .create_ah = &::ibv_create_ah,
    .destroy_ah = &::ibv_destroy_ah,
    .create_ah_from_wc = &::ibv_create_ah_from_wc,
    .allocate = &allocate,
    .allocate_apart = &allocate_apart,
    .release = &release,
    .peer_bytes = nullptr,
    .write_at_once = nullptr,
    .last_reason = &last_reason,
    .query_gid = &::ibv_query_gid,
    .resize_cq = &::ibv_resize_cq,
    .create_srq_ex = &::ibv_create_srq_ex,
    .query_srq = &::ibv_query_srq,
    .create_qp_ex = &::ibv_create_qp_ex,
    .qp_to_qp_ex = &::ibv_qp_to_qp_ex,
    .init_ah_from_wc = &::ibv_init_ah_from_wc,
};

}  // namespace

Provider const& rdma_core_provider() noexcept {
  return table;
}

}  // namespace lend::verbs
