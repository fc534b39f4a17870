// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads near a device. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <cstdint>

namespace lend {

/// Lets the calling thread run only on the CPUs of this NUMA node, for instance that of
/// DeviceAttributes::numa_node. AllocationOptions::node does the same for memory.
///
/// Errors:  not_found      no such node, or none with CPUs; the message has those that are online.
///          denied, system_failed  the kernel refused; the thread runs where it did.
/// Source:  sched_setaffinity(2); Linux Documentation/admin-guide/mm/numaperf.rst, and
///          Documentation/ABI/stable/sysfs-devices-node, cpulist.
[[nodiscard]] LEND_EXPORT Result<void> run_on_node(std::uint32_t node);

}  // namespace lend
