// SPDX-License-Identifier: MIT OR Apache-2.0
// The fake provider's table.
#include "verbs/fake_provider.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <lend/verbs/context.hpp>
#include <verbs/device/device_list.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace lend::test {

using verbs::Provider;

namespace {

/// Of a call that answers errno.
int failure() {
  return fake().fails_with_minus_one ? -1 : fake().fail_errno;
}

std::array<ibv_device, 8> raw_devices{};
std::array<ibv_device*, 9> raw_list{};

ibv_device** get_device_list(int* count) {
  if (fake().fails("ibv_get_device_list")) return nullptr;
  if (fake().device.list_errno != 0) {
    errno = fake().device.list_errno;
    return nullptr;
  }
  raw_list.fill(nullptr);
  for (int i = 0; i < fake().device.devices; ++i) {
    auto& raw = raw_devices[static_cast<std::size_t>(i)];
    std::snprintf(raw.name, sizeof raw.name, "fake%d", i);
    auto const& kinds = fake().device.kinds;
    auto const at = static_cast<std::size_t>(i);
    raw.transport_type = at < kinds.size() ? kinds[at].transport : fake().device.transport;
    raw_list[static_cast<std::size_t>(i)] = &raw;
  }
  *count = fake().device.devices;
  fake().make(raw_list.data(), "list", {});
  return raw_list.data();
}

void free_device_list(ibv_device** list) {
  fake().end(list);
}

ibv_context* open_device(ibv_device* device) {
  if (fake().fails("ibv_open_device")) return nullptr;
  if (fake().device.open_errno != 0) {
    errno = fake().device.open_errno;
    return nullptr;
  }
  std::shared_ptr<ibv_context> const context{new ibv_context{}, [](ibv_context* ending) {
                                               ::close(ending->async_fd);
                                               delete ending;
                                             }};
  context->async_fd = ::eventfd(0, EFD_CLOEXEC);
  fake().last_opened = context->async_fd;
  context->device = device;
  fill_data_path(context->ops);
  return fake().make(context.get(), "context", {}, context);
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
  if (!fake().events.empty()) {
    *event = fake().events.front();
    fake().events.pop_front();
    return 0;
  }
  if (fake().at_no_event) fake().at_no_event();
  std::uint64_t count = 0;
  [[maybe_unused]] auto const got = ::read(context->async_fd, &count, sizeof count);
  errno = EAGAIN;
  return -1;
}

void ack_async_event(ibv_async_event*) {
  ++fake().acknowledged;
}

template <class T>
int end(T* object) {
  return fake().end(object);
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (fake().fails("ibv_query_device")) return failure();
  auto const at = static_cast<std::size_t>(context->device - raw_devices.data());
  auto const& kinds = fake().device.kinds;
  attributes->vendor_id = at < kinds.size() ? kinds[at].vendor : FakeKind{}.vendor;
  attributes->node_guid = htobe64(fake().device.guid);
  fake().device.firmware.copy(attributes->fw_ver, sizeof attributes->fw_ver);
  if (fake().device.has_windows) attributes->device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attributes->max_pkeys = static_cast<std::uint16_t>(fake().device.partition_keys.size());
  attributes->phys_port_cnt = static_cast<std::uint8_t>(fake().device.ports.size());
  attributes->max_qp = fake().device.queue_pairs_max;
  attributes->max_cq = fake().device.completion_queues_max;
  attributes->max_pd = fake().device.domains_max;
  attributes->max_mr = fake().device.regions_max;
  attributes->max_qp_wr = fake().device.work_requests_max;
  attributes->max_sge = 8;
  attributes->max_cqe = fake().device.completions_max;
  attributes->max_srq = fake().device.receive_queues_max;
  attributes->max_srq_wr = fake().device.shared_receives_max;
  attributes->max_mr_size = fake().device.region_bytes_max;
  attributes->atomic_cap = fake().device.has_atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  attributes->max_qp_rd_atom = fake().device.reads_max;
  attributes->max_qp_init_rd_atom = fake().device.reads_max;
  return 0;
}

std::vector<GidBytes> const& gids_of(std::uint32_t port) {
  auto const& second = fake().device.gids_of_port_2;
  return port == 2 && !second.empty() ? second : fake().device.gids;
}

int query_port(ibv_context*, std::uint8_t port, ibv_port_attr* attributes) {
  if (fake().fails("ibv_query_port")) return failure();
  attributes->state = fake().device.ports.at(port - 1u);
  attributes->active_mtu = fake().device.mtu;
  attributes->link_layer = fake().device.link_layer;
  attributes->lid = fake().device.lid;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->sm_lid = fake().device.subnet_manager_lid;
  attributes->active_width = fake().device.active_width;
  attributes->active_speed = fake().device.active_speed;
  attributes->phys_state = fake().device.physical_state;
  attributes->pkey_tbl_len = static_cast<std::uint16_t>(fake().device.partition_keys.size());
  attributes->max_msg_sz = fake().device.message_bytes_max;
  attributes->gid_tbl_len = static_cast<int>(gids_of(port).size());
  attributes->flags = fake().device.port_flags;
  return 0;
}

ibv_gid_type gid_type_of(std::size_t index) {
  auto const& types = fake().device.gid_types;
  if (index < types.size()) return types[index];
  return fake().device.is_soft || fake().device.link_layer != IBV_LINK_LAYER_ETHERNET
             ? IBV_GID_TYPE_IB
             : IBV_GID_TYPE_ROCE_V2;
}

int query_gid_ex(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry) {
  if (fake().fails("ibv_query_gid_ex")) return failure();
  auto const& gid = gids_of(port).at(index);
  if (gid == FakeDevice::unreadable_gid()) return ENODATA;
  std::copy(gid.begin(), gid.end(), entry->gid.raw);
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = gid_type_of(index);
  entry->ndev_ifindex = fake().device.network_interface;
  return 0;
}

int query_pkey(ibv_context*, std::uint8_t, int index, std::uint16_t* key) {
  if (fake().fails("ibv_query_pkey")) return -1;
  *key = htobe16(fake().device.partition_keys.at(static_cast<std::size_t>(index)));
  return 0;
}

ibv_pd* alloc_pd(ibv_context* context) {
  if (fake().fails("ibv_alloc_pd")) return nullptr;
  if (fake().is_full("domain", fake().device.domains_max)) return nullptr;
  auto const domain = std::make_shared<ibv_pd>(ibv_pd{context, 0});
  return fake().make(domain.get(), "domain", {context}, domain);
}

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t length, int access) {
  if (fake().fails("ibv_reg_mr")) return nullptr;
  if (fake().is_full("region", fake().device.regions_max)) return nullptr;
  auto const region = std::make_shared<ibv_mr>();
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = length;
  region->lkey = 0x100u + static_cast<std::uint32_t>(fake().made);
  region->rkey = 0x900u + static_cast<std::uint32_t>(fake().made);
  fake().accesses.push_back(access);
  // The storage is its parent, so that releasing it first is a violation.
  return fake().make(region.get(), "region", {domain, address}, region);
}

ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t length,
                      std::uint64_t address, int descriptor, int access) {
  if (fake().fails("ibv_reg_dmabuf_mr")) return nullptr;
  auto const region = std::make_shared<ibv_mr>();
  region->context = domain->context;
  region->pd = domain;
  region->addr = reinterpret_cast<void*>(offset);  // as libibverbs does
  region->length = length;
  region->lkey = 0x100u + static_cast<std::uint32_t>(fake().made);
  region->rkey = 0x900u + static_cast<std::uint32_t>(fake().made);
  fake().accesses.push_back(access);
  fake().dmabufs.push_back({descriptor, address});
  return fake().make(region.get(), "region", {domain}, region);
}

int advise_mr(ibv_pd*, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* elements,
              std::uint32_t count) {
  if (fake().fails("ibv_advise_mr")) return errno;
  fake().advised.push_back({advice, flags, {elements, elements + count}});
  return 0;
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {  // its queues wake nobody
  if (!fake().device.has_channels) {
    errno = ENOSYS;
    return nullptr;
  }
  if (fake().fails("ibv_create_comp_channel")) return nullptr;
  auto const channel = std::make_shared<ibv_comp_channel>();
  channel->fd = ::eventfd(0, EFD_CLOEXEC);
  return fake().make(channel.get(), "completion channel", {context}, channel);
}

int destroy_comp_channel(ibv_comp_channel* channel) {
  ::close(channel->fd);
  return fake().end(channel);
}

int get_cq_event(ibv_comp_channel*, ibv_cq**, void**) {
  errno = EAGAIN;
  return -1;
}

ibv_cq* create_cq(ibv_context* context, int depth, void*, ibv_comp_channel*, int) {
  if (fake().fails("ibv_create_cq")) return nullptr;
  if (fake().is_full("completion queue", fake().device.completion_queues_max)) return nullptr;
  auto const queue = std::make_shared<ibv_cq>();
  queue->context = context;
  queue->cqe = depth - fake().device.completions_withheld;
  return fake().make(queue.get(), "completion queue", {context}, queue);
}

ibv_srq* create_srq(ibv_pd* domain, ibv_srq_init_attr*) {
  if (fake().fails("ibv_create_srq")) return nullptr;
  if (fake().is_full("receive queue", fake().device.receive_queues_max)) return nullptr;
  auto const queue = std::make_shared<ibv_srq>();
  queue->context = domain->context;
  queue->pd = domain;
  return fake().make(queue.get(), "receive queue", {domain}, queue);
}

int modify_srq(ibv_srq*, ibv_srq_attr*, int) {
  return fake().fails("ibv_modify_srq") ? failure() : 0;
}

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  if (fake().fails("ibv_create_qp")) return nullptr;
  if (fake().is_full("queue pair", fake().device.queue_pairs_max)) return nullptr;
  auto const& cap = attributes->cap;
  if (cap.max_inline_data > fake().device.inline_max ||
      cap.max_send_wr * cap.max_send_sge > fake().device.queue_elements_max) {
    errno = EINVAL;
    return nullptr;
  }
  fake().types.push_back(attributes->qp_type);
  auto const queue_pair = std::make_shared<ibv_qp>();
  queue_pair->context = domain->context;
  queue_pair->pd = domain;
  queue_pair->send_cq = attributes->send_cq;
  queue_pair->srq = attributes->srq;
  fake().last_queue_pair = queue_pair.get();
  queue_pair->qp_num =
      fake().device.first_queue_pair + fake().device.queue_pair_step * fake().queue_pairs_made++;
  attributes->cap.max_inline_data += fake().device.inline_granted;
  attributes->cap.max_send_sge += fake().device.elements_granted;
  attributes->cap.max_recv_sge += fake().device.elements_granted;
  attributes->cap.max_send_wr -= fake().device.send_depth_withheld;
  return fake().make(queue_pair.get(), "queue pair",
                     {domain, attributes->send_cq, attributes->recv_cq, attributes->srq},
                     queue_pair);
}

ibv_ah* create_ah(ibv_pd* domain, ibv_ah_attr* attributes) {
  if (fake().fails("ibv_create_ah")) return nullptr;
  auto const handle = std::make_shared<ibv_ah>();
  handle->context = domain->context;
  handle->pd = domain;
  fake().addresses.push_back(*attributes);
  return fake().make(handle.get(), "address handle", {domain}, handle);
}

int modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  if (fake().fails("ibv_modify_qp")) return failure();
  if (attributes->qp_state == IBV_QPS_ERR && queue_pair->state == IBV_QPS_RESET) return EINVAL;
  queue_pair->state = attributes->qp_state;
  if ((mask & IBV_QP_PORT) != 0) fake().modified_port = attributes->port_num;
  fake().modified.push_back({*attributes, mask});
  if (attributes->qp_state == IBV_QPS_ERR && fake().at_error) fake().at_error();
  return 0;
}

int destroy_qp(ibv_qp* queue_pair) {
  if (fake().at_destruction) fake().at_destruction();
  return end(queue_pair);
}

int query_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int, ibv_qp_init_attr*) {
  if (fake().fails("ibv_query_qp")) return failure();
  attributes->qp_state = queue_pair->state;
  attributes->port_num = fake().modified_port;
  return 0;
}

void* allocate(ibv_context* context, std::size_t length, AllocationOptions const& options) {
  fake().pages_asked.push_back(options.pages);
  if (fake().fails("allocating")) return nullptr;
  if (fake().refused_pages.contains(options.pages)) {
    errno = fake().refusal_errno;
    return nullptr;
  }
  auto const bytes = std::make_shared<std::byte[]>(length);
  return fake().make(bytes.get(), "storage", {context}, bytes);
}

void release(ibv_context*, void* address, std::size_t) {
  static_cast<void>(fake().end(address));
}

char const* last_reason() {
  return fake().reason;
}

Provider table_of(bool is_soft) {
  Provider table{};  // null: what the library never calls
  table.name = "fake";
  table.is_soft = is_soft;
  table.get_device_list = &get_device_list;
  table.free_device_list = &free_device_list;
  table.open_device = &open_device;
  table.close_device = &end<ibv_context>;
  table.query_device = &query_device;
  table.query_port = &query_port;
  table.query_gid_ex = &query_gid_ex;
  table.get_device_guid = [](ibv_device*) -> __be64 { return htobe64(fake().device.guid); };
  table.get_device_index = [](ibv_device*) { return fake().device.kernel_index; };
  table.query_pkey = &query_pkey;
  table.alloc_pd = &alloc_pd;
  table.dealloc_pd = &end<ibv_pd>;
  table.reg_mr = &reg_mr;
  table.reg_dmabuf_mr = &reg_dmabuf_mr;
  table.dereg_mr = &end<ibv_mr>;
  add_extended_calls(table);
  table.advise_mr = &advise_mr;
  table.get_async_event = &get_async_event;
  table.ack_async_event = &ack_async_event;
  table.create_comp_channel = &create_comp_channel;
  table.destroy_comp_channel = &destroy_comp_channel;
  table.get_cq_event = &get_cq_event;
  table.create_cq = &create_cq;
  table.destroy_cq = &end<ibv_cq>;
  table.create_srq = &create_srq;
  table.modify_srq = &modify_srq;
  table.destroy_srq = &end<ibv_srq>;
  table.create_qp = &create_qp;
  table.modify_qp = &modify_qp;
  table.query_qp = &query_qp;
  table.destroy_qp = &destroy_qp;
  table.create_ah = &create_ah;
  table.destroy_ah = &end<ibv_ah>;
  table.allocate = &allocate;
  table.allocate_apart = [](ibv_context* context, std::size_t length) {
    return allocate(context, length, {});
  };
  table.release = &release;
  table.last_reason = &last_reason;
  return table;
}

}  // namespace

Provider const& fake_provider() {
  static Provider const hardware = table_of(false);
  static Provider const soft = table_of(true);
  return fake().device.is_soft ? soft : hardware;
}

Result<Context> open_fake() {
  LEND_TRY(devices, verbs::devices_of(fake_provider()));
  if (devices.empty()) return Errc::not_found;
  return devices.front().open();
}

}  // namespace lend::test
