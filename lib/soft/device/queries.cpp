// SPDX-License-Identifier: MIT OR Apache-2.0
// What the soft device says of itself and of its one port.
#include <soft/device/queries.hpp>

#include <soft/device/provider.hpp>
#include <soft/objects/context.hpp>
#include <soft/platform/clock.hpp>
#include <soft/platform/reason.hpp>

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lend::soft {

namespace {

/// What is beyond query_device(). One tick is a nanosecond of now().
void fill_extended(ibv_device_attr_ex& attributes) noexcept {
  attributes.phys_port_cnt_ex = 1;
  attributes.completion_timestamp_mask = UINT64_MAX;
  attributes.hca_core_clock = 1'000'000;  // kHz
  // Nothing is ever pinned. Not implicit: a region has bounds.
  attributes.odp_caps.general_caps = IBV_ODP_SUPPORT;
  constexpr std::uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
  auto& transports = attributes.odp_caps.per_transport_caps;
  transports.ud_odp_caps = messages;
  transports.uc_odp_caps = messages | IBV_ODP_SUPPORT_WRITE;
  transports.rc_odp_caps = messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                           IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
}

}  // namespace

int query_device(ibv_context* context, ibv_device_attr* attributes) noexcept {
  std::memset(attributes, 0, sizeof *attributes);
  std::strcpy(attributes->fw_ver, "1");
  attributes->node_guid = htobe64(Context::of(context).guid);
  attributes->sys_image_guid = attributes->node_guid;
  attributes->max_mr_size = UINT64_MAX >> 1;
  attributes->page_size_cap = page;
  attributes->vendor_id = 0xffffff;  // as software devices say it. Source: Linux rxe_param.h
  attributes->max_qp = queue_pairs_max;
  attributes->max_qp_wr = queue_depth_max;
  attributes->max_sge = pieces_max;
  attributes->max_sge_rd = pieces_max;
  attributes->max_cq = completion_queues_max;
  attributes->max_cqe = completions_max;
  attributes->max_mr = regions_max - 1;
  attributes->max_mw = regions_max - 1;  // which regions and windows share
  attributes->device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attributes->max_pd = INT32_MAX;
  attributes->max_qp_rd_atom = outstanding_reads_max;
  attributes->max_qp_init_rd_atom = outstanding_reads_max;
  attributes->max_res_rd_atom = outstanding_reads_max * queue_pairs_max;
  // Not GLOB: memory that is not mapped is read and then written, under a lock of the device's.
  attributes->atomic_cap = IBV_ATOMIC_HCA;
  attributes->max_srq = receive_pools_max;
  attributes->max_srq_wr = queue_depth_max;
  attributes->max_srq_sge = pieces_max;
  attributes->max_ah = INT32_MAX;
  attributes->max_pkeys = 1;
  attributes->phys_port_cnt = 1;
  return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) noexcept {
  if (port != 1) return fail(EINVAL, "the soft device has one port, number 1");
  std::memset(attributes, 0, sizeof *attributes);
  bool const is_down = Context::of(context).port_is_down.load(std::memory_order_relaxed);
  attributes->state = is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->gid_tbl_len = 1;
  attributes->max_msg_sz = message_bytes_max;
  attributes->pkey_tbl_len = 1;
  attributes->lid = 1;
  attributes->max_vl_num = 1;
  attributes->active_width = 2;              // 4x
  attributes->active_speed = 32;             // EDR
  attributes->phys_state = is_down ? 3 : 5;  // disabled, link up
  attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
  return 0;
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) noexcept {
  if (port != 1 || index != 0) {
    fail(EINVAL, "the soft device has one port, 1, with one GID, 0");
    return -1;
  }
  *gid = Context::of(context).gid();
  return 0;
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                 ibv_gid_entry* entry) noexcept {
  if (port != 1 || index != 0)
    return fail(EINVAL, "the soft device has one port, 1, with one GID, 0");
  *entry = {};
  entry->port_num = 1;
  entry->gid_type = IBV_GID_TYPE_IB;
  return query_gid(context, 1, 0, &entry->gid);
}

int query_port_here(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
                    std::size_t size) noexcept {
  ibv_port_attr whole{};
  if (auto const error = provider().query_port(context, port, &whole); error != 0) return error;
  std::memset(attributes, 0, size);
  std::memcpy(attributes, &whole, std::min(size, sizeof whole));
  return 0;
}

int query_device_here(ibv_context* context, ibv_query_device_ex_input const*,
                      ibv_device_attr_ex* attributes, std::size_t size) noexcept {
  if (size < sizeof attributes->orig_attr) return EINVAL;
  ibv_device_attr_ex whole{};
  if (auto const error = provider().query_device(context, &whole.orig_attr); error != 0)
    return error;
  fill_extended(whole);
  std::memset(attributes, 0, size);
  std::memcpy(attributes, &whole, std::min(size, sizeof whole));
  return 0;
}

int query_all_of_device(ibv_context* context, ibv_device_attr_ex* attributes) noexcept {
  *attributes = {};
  fill_extended(*attributes);
  return query_device(context, &attributes->orig_attr);
}

int query_rt_values(ibv_context* context, ibv_values_ex* values) noexcept {
  if (auto const error = Context::of(context).check_ours(); error != 0) return error;
  if (values->comp_mask != IBV_VALUES_MASK_RAW_CLOCK) return fail(EOPNOTSUPP);
  // As drivers of cards say it: ticks, whatever their number. Source: rdma-core providers/mlx5.
  values->raw_clock = {0, static_cast<long>(now())};
  return 0;
}

}  // namespace lend::soft
