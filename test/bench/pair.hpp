// SPDX-License-Identifier: MIT OR Apache-2.0
// Two forked processes, each with one end of a connected channel. One thread each.
#pragma once

#include <lend/lend.hpp>
#include <tools/loops/end.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

struct ibv_qp;

namespace lend::bench {

/// One process's end.
struct End : tools::End {
  int socket;  ///< to the other
  Context device;
  ibv_qp* queue_pair;  ///< the channel's
};

struct PairOptions {
  std::array<int, 2> cpus{-1, -1};  ///< that they are bound to, where not negative
  DeviceChoice device = DeviceChoice::soft();
  ChannelOptions channel{};
  bool own_memory = false;  ///< the program's, registered; else what lend allocates
};

/// Forks both processes, binds them to their CPUs before they open the device, and runs `body` in
/// each. What the near one puts into `figures` arrives in this process.
///
/// Errors:  system_failed  one of them failed; it has said why on standard error.
[[nodiscard]] Result<void> run_pair(PairOptions const& options, std::span<std::byte> figures,
                                    std::function<Result<void>(End&)> const& body);

}  // namespace lend::bench
