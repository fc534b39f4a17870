// SPDX-License-Identifier: MIT OR Apache-2.0
// Two forked processes, each with one end of a connected channel. One thread each.
#pragma once

#include <lend/lend.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

struct ibv_qp;

namespace lend::bench {

constexpr std::size_t pair_bytes = std::size_t{8} << 20;  ///< of memory on each side

/// One process's end.
struct End {
  bool near;      ///< measures; the other end answers
  bool one_core;  ///< both are bound to the same CPU
  int socket;
  Context device;
  MemoryRegion memory;   ///< local
  MemoryRegion exposed;  ///< the peer may write and read here
  Channel channel;
  ibv_qp* queue_pair;   ///< the channel's
  RemoteRegion remote;  ///< the peer's `exposed`

  /// Returns when both ends have called it. Sleeps, so that neither takes the other's CPU.
  [[nodiscard]] Result<void> meet() const;
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
