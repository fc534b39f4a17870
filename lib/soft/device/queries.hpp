// SPDX-License-Identifier: MIT OR Apache-2.0
// What the soft device says of itself and of its one port. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

int query_device(ibv_context*, ibv_device_attr*) noexcept;
int query_port(ibv_context*, std::uint8_t port, ibv_port_attr*) noexcept;
int query_gid(ibv_context*, std::uint8_t port, int index, ibv_gid*) noexcept;
int query_gid_ex(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry*) noexcept;

/// As inline calls of libibverbs ask, with room for `size` bytes.
int query_port_here(ibv_context*, std::uint8_t port, ibv_port_attr*, std::size_t size) noexcept;
int query_device_here(ibv_context*, ibv_query_device_ex_input const*, ibv_device_attr_ex*,
                      std::size_t size) noexcept;
/// As Provider::query_device_ex; no planned fault.
int query_all_of_device(ibv_context*, ibv_device_attr_ex*) noexcept;

/// As ibv_query_rt_values_ex(3): now(), by which completions are timed.
int query_rt_values(ibv_context*, ibv_values_ex*) noexcept;

}  // namespace lend::soft
