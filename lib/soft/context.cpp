// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening and closing the soft device, and what it says about itself.
#include "context.hpp"

#include "completion_queue.hpp"
#include "host.hpp"
#include "provider.hpp"
#include "queue_pair.hpp"
#include "reason.hpp"
#include "receive_pool.hpp"

#include <endian.h>
#include <algorithm>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace lend::soft {
namespace {

/// Other code looks behind ibv_device for driver data (mlx5dv, efadv): let it find zeros.
struct Device : ibv_device {
  std::byte padding[512];
};

constinit Device device = [] {
  Device made{};
  made.node_type = IBV_NODE_CA;
  made.transport_type = IBV_TRANSPORT_IB;
  auto const write = [](char* target, std::string_view text) {
    for (char const letter : text) *target++ = letter;
  };
  write(made.name, "soft0");
  write(made.dev_name, "soft0");
  write(made.dev_path, soft_device_mark);
  return made;
}();

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
  whole.phys_port_cnt_ex = whole.orig_attr.phys_port_cnt;
  std::memset(attributes, 0, size);
  std::memcpy(attributes, &whole, std::min(size, sizeof whole));
  return 0;
}

bool instance_is_dead(void const* peers, std::uint32_t instance) {
  return const_cast<Peers*>(static_cast<Peers const*>(peers))->instance_is_dead(instance);
}

}  // namespace

Context::Context(UniqueFd file, Mapping mapping)
    : verbs_context{},
      segment_file{std::move(file)},
      segment_mapping{std::move(mapping)},
      segment{*reinterpret_cast<Segment*>(segment_mapping.base())},
      arenas{segment},
      regions{segment, arenas},
      peers{segment, slot},
      rings{rings_offset, segment_bytes} {
  sz = sizeof(verbs_context);
  // What inline calls of libibverbs reach: like the table's, these can have planned faults.
  this->query_port = query_port_here;
  this->query_device_ex = query_device_here;
  this->create_srq_ex = provider().create_srq_ex;
  this->create_cq_ex = provider().create_cq_ex;
  this->create_qp_ex = provider().create_qp_ex;
  context.device = &device;
  context.cmd_fd = -1;
  context.async_fd = -1;
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.ops.poll_cq = poll_cq;
  context.ops.req_notify_cq = req_notify_cq;
  context.ops.post_send = post_send;
  context.ops.post_recv = post_recv;
  context.ops.post_srq_recv = post_srq_recv;
  ::pthread_mutex_init(&context.mutex, nullptr);
}

int Context::check_ours() const noexcept {
  if (is_ours()) return 0;
  return fail(ENODEV, "this device was opened before fork(): open it again in the child");
}

std::uint64_t Context::take_ring(std::size_t length) {
  if (auto const offset = rings.take(length)) return *offset;
  fail(ENOMEM, "the soft device's %zu MiB for queues are used up: ask for smaller depths",
       segment_bytes >> 20);
  return 0;
}

void Context::give_back_ring(std::uint64_t offset, std::size_t length) noexcept {
  // No sequence number of its last tenant may look valid to the next.
  clear_pages(segment_file.get(), reinterpret_cast<std::byte*>(&segment), offset,
              whole_pages(length));
  rings.give_back(offset);
}

ibv_device* soft_device() noexcept {
  return &device;
}

ibv_device** get_device_list(int* count) noexcept {
  auto** const list = new (std::nothrow) ibv_device* [2] { &device, nullptr };
  if (list == nullptr) fail(ENOMEM);
  if (count != nullptr) *count = list == nullptr ? 0 : 1;
  return list;
}

void free_device_list(ibv_device** list) noexcept {
  delete[] list;
}

namespace {

/// Programs that are not to be changed have their faults from the environment. 0, or errno.
int plan_from_environment(Context& context) noexcept try {
  char const* const text = ::secure_getenv("LEND_SOFT_FAULTS");
  if (text == nullptr) return 0;
  auto const plan = FaultPlan::parse(text);
  if (!plan) return fail(EINVAL, "LEND_SOFT_FAULTS: %s", plan.error().message().c_str());
  context.faults.plan(plan.value());
  return 0;
} catch (std::bad_alloc const&) {
  return fail(ENOMEM);
}

}  // namespace

ibv_context* open_device(ibv_device* chosen) noexcept try {
  if (chosen != &device) {
    fail(ENODEV);
    return nullptr;
  }
  RendezvousDirectory directory;
  std::uint64_t guid = 0;
  if (directory.choose() != 0 || reachability_guid(directory, guid) != 0) return nullptr;
  auto const mark = process_mark();
  if (mark == 0) {
    fail(ENOMEM, "the kernel gives no page that a forked child finds wiped (MADV_WIPEONFORK)");
    return nullptr;
  }
  auto file = make_memory_file("lend.segment", segment_bytes);
  if (!file) {
    fail(errno, "no memory file of %zu MiB for the soft device: %s", segment_bytes >> 20,
         std::strerror(errno));
    return nullptr;
  }
  auto mapping = Mapping::of(file.get(), segment_bytes);
  if (!mapping) {
    fail(errno, "no %zu MiB of address space for the soft device: raise ulimit -v",
         segment_bytes >> 20);
    return nullptr;
  }
  auto context = std::make_unique<Context>(std::move(file), std::move(mapping));
  context->guid = guid;
  context->mark = mark;
  context->mark_address = process_mark_address();
  context->peers_reach_private = cross_memory().possible;
  context->async = WakePipe::make();
  if (!context->async) {
    fail(errno, "no pipe for asynchronous events: %s", std::strerror(errno));
    return nullptr;
  }
  context->context.async_fd = context->async.fd();
  if (plan_from_environment(*context) != 0 ||
      context->slot.take(directory, context->segment_file.get()) != 0)
    return nullptr;
  auto const instance = context->slot.tenant().instance();
  context->claimant = {instance, instance_is_dead, &context->peers};
  auto& header = context->segment.header;
  header.instance.set(instance);
  context->async.publish(header.async);
  std::uint64_t held = 0;
  if (auto const error = context->own_wakers.hold(header.async, held); error != 0) {
    fail(error, "no descriptor for asynchronous events: %s", std::strerror(error));
    return nullptr;
  }
  header.probe_address.set(reinterpret_cast<std::uint64_t>(&context->guid));
  // Release pairs with the acquire of a peer that connects.
  header.magic.store(SharedHeader::magic_value, std::memory_order_release);
  return &context.release()->context;
} catch (std::bad_alloc const&) {
  fail(ENOMEM);
  return nullptr;
}

int close_device(ibv_context* opened) noexcept {
  auto& context = Context::of(opened);
  if (!context.is_ours()) return 0;  // all of it is the parent's
  {
    std::lock_guard const guard{context.control};
    auto const queues =
        std::count_if(context.completion_queues.begin(), context.completion_queues.end(),
                      [](auto const* queue) { return queue != nullptr; });
    if (context.domains != 0 || queues != 0 || context.channels != 0 || !context.arenas.empty())
      return fail(EBUSY,
                  "the device still has %u protection domains, %d completion queues, %u completion "
                  "channels%s: destroy them first",
                  context.domains, static_cast<int>(queues), context.channels,
                  context.arenas.empty() ? "" : " and allocated memory");
  }
  ::pthread_mutex_destroy(&context.context.mutex);
  delete &context;
  return 0;
}

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

int query_port(ibv_context*, std::uint8_t port, ibv_port_attr* attributes) noexcept {
  if (port != 1) return fail(EINVAL, "the soft device has one port, number 1");
  std::memset(attributes, 0, sizeof *attributes);
  attributes->state = IBV_PORT_ACTIVE;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->gid_tbl_len = 1;
  attributes->max_msg_sz = message_bytes_max;
  attributes->pkey_tbl_len = 1;
  attributes->lid = 1;
  attributes->max_vl_num = 1;
  attributes->active_width = 2;   // 4x
  attributes->active_speed = 32;  // EDR
  attributes->phys_state = 5;     // link up
  attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
  return 0;
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) noexcept {
  if (port != 1 || index != 0) {
    fail(EINVAL, "the soft device has one port, 1, with one GID, 0");
    return -1;
  }
  gid->global.subnet_prefix = htobe64(0xfe80000000000000);
  gid->global.interface_id = htobe64(Context::of(context).guid);
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

}  // namespace lend::soft
