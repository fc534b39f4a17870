// SPDX-License-Identifier: MIT OR Apache-2.0
// CPUs of this process, and which of them share a core. Any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lend::command {

inline constexpr char const* system_devices = "/sys/devices/system";

/// Those that this process may use.
[[nodiscard]] std::vector<int> allowed_cpus();
/// The CPUs of a file with a list such as "0-3,8". Empty: it is not there.
[[nodiscard]] std::vector<int> cpus_in(std::string const& path);
/// Those that share the core of `cpu`, and itself; empty if it is not known.
/// Shape:   `system` is `system_devices`, or a directory of that form.
/// Source:  Linux Documentation/ABI/stable/sysfs-devices-system-cpu, topology/thread_siblings_list.
[[nodiscard]] std::vector<int> siblings_of(int cpu, std::string const& system);
/// Part number `part` of `parts` of the CPUs, of which those of one core are neighbours. Empty:
/// there are fewer CPUs than parts.
[[nodiscard]] std::vector<int> part_of(std::span<int const> cpus, unsigned part, unsigned parts,
                                       std::string const& system);
/// Binds this thread. Where it fails the scheduler chooses, as it does for most programs.
void bind_to(std::span<int const> cpus) noexcept;

}  // namespace lend::command
