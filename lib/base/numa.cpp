// SPDX-License-Identifier: MIT OR Apache-2.0
// The CPUs of a NUMA node. Any thread.
#include <base/first_line.hpp>
#include <lend/base/numa.hpp>

#include <sched.h>

#include <cerrno>
#include <string>

namespace lend {

namespace {

/// "0-3,8-11". Source: Linux Documentation/admin-guide/cputopology.rst, cpulist format.
bool read_list(std::string const& list, cpu_set_t& cpus) {
  CPU_ZERO(&cpus);
  for (std::size_t at = 0; at < list.size();) {
    std::size_t length = 0;
    auto const number = [&] {
      unsigned value = 0;
      for (length = 0; at < list.size() && list[at] >= '0' && list[at] <= '9'; ++at, ++length)
        value = value * 10 + static_cast<unsigned>(list[at] - '0');
      return value;
    };
    unsigned const first = number();
    if (length == 0) return false;
    unsigned last = first;
    if (at < list.size() && list[at] == '-') {
      ++at;
      last = number();
    }
    if (length == 0 || last >= CPU_SETSIZE) return false;
    for (unsigned cpu = first; cpu <= last; ++cpu) CPU_SET(cpu, &cpus);
    if (at < list.size() && list[at++] != ',') return false;
  }
  return CPU_COUNT(&cpus) != 0;
}

}  // namespace

Result<void> run_on_node(std::uint32_t node) {
  std::string const nodes = "/sys/devices/system/node/";
  cpu_set_t cpus;
  if (!read_list(base::first_line_of(nodes + "node" + std::to_string(node) + "/cpulist"), cpus))
    return Error{Errc::not_found, "NUMA node " + std::to_string(node) +
                                      " does not exist or has no CPUs; " + nodes + "online lists " +
                                      base::first_line_of(nodes + "online")};
  if (::sched_setaffinity(0, sizeof cpus, &cpus) == 0) return success();
  return Error::from_errno("sched_setaffinity for NUMA node " + std::to_string(node), errno,
                           "A container or cpuset may forbid the node's CPUs.");
}

}  // namespace lend
