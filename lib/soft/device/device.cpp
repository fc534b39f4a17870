// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening and closing the soft device.
#include <base/environment.hpp>
#include <soft/device/device.hpp>

#include <soft/device/exported_calls.hpp>
#include <soft/device/provider.hpp>
#include <soft/device/queries.hpp>
#include <soft/engine/awaited.hpp>
#include <soft/engine/poll.hpp>
#include <soft/engine/post.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/peers/host.hpp>
#include <soft/platform/reason.hpp>

#include <lend/soft/faults.hpp>

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
/// libibverbs counts its contexts there.
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
  write(made.dev_path, verbs::soft_device_mark);
  return made;
}();

/// One of the two that awaited.hpp has.
void serve_called(QueuePair& qp) noexcept {
  serve_waiting(qp);
}

bool instance_is_dead(void const* peers, std::uint32_t instance) {
  return const_cast<Peers*>(static_cast<Peers const*>(peers))->instance_is_dead(instance);
}

bool retry_for_sleepers(Context& context) noexcept {
  return retry_stalled(context, RetriedFor::sleepers);
}

/// What the calls of libibverbs reach, inline and exported.
void fill_entries(Context& context) noexcept {
  context.sz = sizeof(verbs_context);
  // Like the table's, these can have planned faults.
  context.query_port = query_port_here;
  context.query_device_ex = query_device_here;
  context.advise_mr = provider().advise_mr;
  context.query_rt_values = provider().query_rt_values_ex;
  context.create_srq_ex = provider().create_srq_ex;
  context.create_cq_ex = provider().create_cq_ex;
  context.create_qp_ex = provider().create_qp_ex;
  context.context.device = &device;
  context.context.cmd_fd = -1;
  context.context.async_fd = -1;
  context.context.num_comp_vectors = 1;
  context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.context.ops.poll_cq = poll_cq;
  context.context.ops.req_notify_cq = req_notify_cq;
  context.context.ops.post_send = post_send;
  context.context.ops.post_recv = post_recv;
  context.context.ops.post_srq_recv = post_srq_recv;
  context.context.ops.alloc_mw = provider().alloc_mw;
  context.context.ops.dealloc_mw = provider().dealloc_mw;
  context.refusals = {add_refusals(context), free_refusals};
}

/// Programs that are not to be changed have their faults from the environment. 0, or errno.
int plan_from_environment(Context& context) noexcept try {
  auto const wish = base::variable("LEND_SOFT_FAULTS");
  if (wish.is_refused) return fail(EACCES, "%s %s", wish.name, base::refused_because);
  if (wish.text.empty()) return 0;
  auto const plan = FaultPlan::parse(wish.text);
  if (!plan) return fail(EINVAL, "LEND_SOFT_FAULTS: %s", plan.error().message().c_str());
  context.faults.plan(plan.value().faults());
  return 0;
} catch (std::bad_alloc const&) {
  return fail(ENOMEM);
}

}  // namespace

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
    fail(ENOMEM, "the kernel provides no page that is wiped in a forked child (MADV_WIPEONFORK)");
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
  auto context = std::make_unique<Context>(std::move(file), std::move(mapping), retry_for_sleepers,
                                           serve_called);
  fill_entries(*context);
  context->guid = guid;
  context->mark = mark;
  context->mark_address = process_mark_address();
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
  if (auto const error = context->own_wake_pipes.hold(header.async, held); error != 0) {
    fail(error, "no descriptor for asynchronous events: %s", std::strerror(error));
    return nullptr;
  }
  header.probe_address.set(reinterpret_cast<std::uint64_t>(&context->guid));
  auto const cross = cross_memory();
  header.cross_memory.set((cross.reads ? SharedHeader::reads : 0) |
                          (cross.writes ? SharedHeader::writes : 0));
  // Release pairs with the acquire of a peer that connects.
  header.magic.store(SharedHeader::magic_value, std::memory_order_release);
  directory.share_waiter_names();
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

}  // namespace lend::soft
