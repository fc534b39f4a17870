// SPDX-License-Identifier: MIT OR Apache-2.0
// What programs ask of a device that lend itself never does: the rest of libibverbs' questions.
// Contracts as in their man pages. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

/// Network order; 0 with errno and reason where this host gives the device none.
[[nodiscard]] std::uint64_t device_guid() noexcept;

/// As the exported symbol, which fills only what came before port_cap_flags2.
int query_port_compat(ibv_context*, std::uint8_t port, _compat_ibv_port_attr*) noexcept;
int query_gid_entry(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry*,
                    std::uint32_t flags, std::size_t entry_size) noexcept;
/// The number of entries, or a negative errno.
ssize_t query_gid_table(ibv_context*, ibv_gid_entry*, std::size_t entries_max, std::uint32_t flags,
                        std::size_t entry_size) noexcept;
/// In the numbers of sysfs: 0 is InfiniBand or RoCE v1. Source: rdma-core libibverbs/driver.h.
int query_gid_sysfs_type(ibv_context*, std::uint8_t port, unsigned index, unsigned* type) noexcept;
/// One partition, of which every port is a full member.
int query_pkey(ibv_context*, std::uint8_t port, int index, std::uint16_t* key) noexcept;
int get_pkey_index(ibv_context*, std::uint8_t port, std::uint16_t key) noexcept;

/// As the kernel for a device that is closed with objects left: its queue pairs are in ERR, and its
/// peers get no answer. The objects themselves stay. 0, or EBUSY with reason: a peer may still read
/// or write memory of this process; a later call can succeed.
[[nodiscard]] int break_all(ibv_context*) noexcept;

/// Where `io_address` is the address itself; another is refused.
[[nodiscard]] ibv_mr* reg_mr_at(ibv_pd*, void* address, std::size_t length,
                                std::uint64_t io_address, unsigned access) noexcept;

}  // namespace lend::soft
