// SPDX-License-Identifier: MIT OR Apache-2.0
// The choice of CPUs.
#include <command/cpus.hpp>
#include <tools/bench/pinning.hpp>

#include <algorithm>
#include <iterator>

namespace lend::tools {

namespace {

bool is_among(std::span<int const> cpus, int cpu) noexcept {
  return std::ranges::find(cpus, cpu) != cpus.end();
}

}  // namespace

std::vector<int> bench_cpus(std::span<int const> allowed, std::optional<std::uint32_t> node,
                            std::string const& system) {
  std::vector<int> cpus{allowed.begin(), allowed.end()};
  if (node) {
    auto const local = command::cpus_in(system + "/node/node" + std::to_string(*node) + "/cpulist");
    std::vector<int> both;
    std::ranges::copy_if(cpus, std::back_inserter(both),
                         [&](int cpu) { return is_among(local, cpu); });
    if (both.size() > 1) cpus = std::move(both);
  }
  if (cpus.size() > 2) std::ranges::stable_partition(cpus, [](int cpu) { return cpu != 0; });
  if (cpus.size() < 2) return cpus;
  auto const siblings = command::siblings_of(cpus.front(), system);
  auto const other = std::ranges::find_if(cpus.begin() + 1, cpus.end(),
                                          [&](int cpu) { return !is_among(siblings, cpu); });
  return {cpus.front(), other == cpus.end() ? cpus[1] : *other};
}

}  // namespace lend::tools
