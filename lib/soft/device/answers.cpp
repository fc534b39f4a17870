// SPDX-License-Identifier: MIT OR Apache-2.0
// One port, one GID, one partition.
#include <soft/device/answers.hpp>

#include <soft/device/provider.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/peers/host.hpp>
#include <soft/platform/reason.hpp>

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>

namespace lend::soft {
namespace {

constexpr std::uint16_t default_partition = 0xffff;  // the same in either byte order

/// -1 with errno, as calls that look in sysfs fail.
int absent(char const* what) noexcept {
  fail(EINVAL, "the soft device has one port, 1, with one %s, at index 0", what);
  return -1;
}

/// Calls visit() with each queue pair until it returns a lock that is held, or null.
template <class Visit>
RobustLock const* for_queue_pairs(Context& context, Visit visit) noexcept {
  std::lock_guard const guard{context.control};
  for (auto& entry : context.queue_pairs)
    if (auto* const qp = entry.load(std::memory_order_relaxed))
      if (auto* const held = visit(*qp)) return held;
  return nullptr;
}

}  // namespace

std::uint64_t device_guid() noexcept {
  RendezvousDirectory directory;
  std::uint64_t guid = 0;
  return directory.choose() == 0 && reachability_guid(directory, guid) == 0 ? htobe64(guid) : 0;
}

int query_port_compat(ibv_context* context, std::uint8_t port,
                      _compat_ibv_port_attr* attributes) noexcept {
  ibv_port_attr whole{};
  if (auto const error = provider().query_port(context, port, &whole); error != 0) return error;
  // Source: rdma-core libibverbs/verbs.c, ibv_query_port 1.1.
  std::memcpy(reinterpret_cast<std::byte*>(attributes), &whole,
              offsetof(ibv_port_attr, port_cap_flags2));
  return 0;
}

int query_gid_entry(ibv_context* context, std::uint32_t port, std::uint32_t index,
                    ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) noexcept {
  if (flags != 0) return fail(EOPNOTSUPP);
  ibv_gid_entry whole{};
  if (auto const error = provider().query_gid_ex(context, port, index, &whole); error != 0)
    return error;
  std::memcpy(entry, &whole, std::min(entry_size, sizeof whole));
  return 0;
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t entries_max,
                        std::uint32_t flags, std::size_t entry_size) noexcept {
  if (entries_max == 0) return -EINVAL;
  auto const error = query_gid_entry(context, 1, 0, entries, flags, entry_size);
  return error == 0 ? 1 : -error;
}

int query_gid_sysfs_type(ibv_context* context, std::uint8_t port, unsigned index,
                         unsigned* type) noexcept {
  if (planned_failure(context) != 0) return -1;
  if (port != 1 || index != 0) return absent("GID");
  *type = 0;
  return 0;
}

int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* key) noexcept {
  if (planned_failure(context) != 0) return -1;
  if (port != 1 || index != 0) return absent("partition key");
  *key = default_partition;
  return 0;
}

int get_pkey_index(ibv_context* context, std::uint8_t port, std::uint16_t key) noexcept {
  if (planned_failure(context) != 0) return -1;
  if (port != 1 || key != default_partition) return absent("partition key, 0xffff");
  return 0;
}

int break_all(ibv_context* opened) noexcept {
  auto& context = Context::of(opened);
  if (!context.is_ours()) return 0;
  for_queue_pairs(context, [](QueuePair& qp) -> RobustLock const* {
    std::lock_guard const posters{qp.send_lock};
    // There is no transition from RESET, where no peer is answered anyway.
    if (qp.mode.load(std::memory_order_relaxed) != IBV_QPS_RESET) enter_error(qp);
    return nullptr;
  });
  // Peers that came before may be writing still.
  return wait_for_holders(context, [&] {
    return for_queue_pairs(context, [&](QueuePair& qp) -> RobustLock const* {
      auto& rx = qp.shared->rx;
      if (!rx.lock_in_time(context.claimant)) return &rx;
      rx.unlock();
      return nullptr;
    });
  });
}

ibv_mr* reg_mr_at(ibv_pd* pd, void* address, std::size_t length, std::uint64_t io_address,
                  unsigned access) noexcept {
  if (io_address != reinterpret_cast<std::uint64_t>(address)) {
    fail(EOPNOTSUPP, "the soft device registers memory only at its address in the process");
    return nullptr;
  }
  return provider().reg_mr(pd, address, length, static_cast<int>(access));
}

}  // namespace lend::soft
