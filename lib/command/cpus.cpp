// SPDX-License-Identifier: MIT OR Apache-2.0
// CPUs by sched_setaffinity(2) and sysfs.
#include <command/cpus.hpp>

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace lend::command {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  return cpus;
}

std::vector<int> cpus_in(std::string const& path) {
  std::ifstream file{path};
  std::vector<int> cpus;
  for (int first = 0; file >> first;) {
    int last = first;
    if (file.peek() == '-') file.ignore() >> last;
    for (int cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) cpus.push_back(cpu);
    if (file.peek() == ',') file.ignore();
  }
  return cpus;
}

std::vector<int> siblings_of(int cpu, std::string const& system) {
  return cpus_in(system + "/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
}

std::vector<int> part_of(std::span<int const> cpus, unsigned part, unsigned parts,
                         std::string const& system) {
  if (cpus.size() < parts) return {};
  std::vector<std::pair<int, int>> by_core;  // the first sibling, the CPU
  for (int const cpu : cpus) {
    auto const siblings = siblings_of(cpu, system);
    by_core.emplace_back(siblings.empty() ? cpu : siblings.front(), cpu);
  }
  std::ranges::sort(by_core);
  std::vector<int> all;
  for (auto i = cpus.size() * part / parts; i < cpus.size() * (part + 1) / parts; ++i)
    all.push_back(by_core[i].second);
  return all;
}

void bind_to(std::span<int const> cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int const cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace lend::command
