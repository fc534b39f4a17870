// SPDX-License-Identifier: MIT OR Apache-2.0
// Which CPUs the two ends of a bench are bound to. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lend::tools {

/// Two of `allowed`, or all where there are fewer: of the NUMA node of the device, if it is known
/// and has two; of two cores, where there are two; and not CPU 0, which takes interrupts, if there
/// are others.
/// Shape:   `system` is command::system_devices, or a directory of that form.
/// Source:  Linux Documentation/ABI/stable/sysfs-devices-node, cpulist.
[[nodiscard]] std::vector<int> bench_cpus(std::span<int const> allowed,
                                          std::optional<std::uint32_t> node,
                                          std::string const& system);

}  // namespace lend::tools
