// SPDX-License-Identifier: MIT OR Apache-2.0
// One operation posted and completed, over and over, by raw verbs and by each layer of lend: on one
// queue pair, or by id on another of the same make. One thread.
#pragma once

#include <lend/channel/datagram_channel.hpp>
#include <lend/channel/unreliable_channel.hpp>
#include <lend/lend.hpp>

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace lend::bench {

/// A channel connected to itself, and the raw objects in it; and the same of the other services.
struct LoopBack {
  MemoryRegion memory;  ///< exposed
  Channel channel;
  Channel beside;  ///< for halos
  RemoteRegion remote;
  ibv_qp* queue_pair;
  ibv_qp* queue_pair_beside;
  std::uint32_t local_key;
  std::uint64_t address;
  CompletionQueue completions;
  QueuePair by_id;  ///< connected to itself, too

  UnreliableChannel unreliable;
  UnreliableQueuePair unreliable_by_id;
  DatagramChannel datagrams;
  DatagramQueuePair datagrams_by_id;
  Destination itself;  ///< of the datagrams
};

[[nodiscard]] Result<LoopBack> loop_back(ProtectionDomain const& domain,
                                         ChannelOptions const& options);

/// Operations that chain and batch do at a time.
constexpr std::uint64_t together = 16;
/// Runs an operation `count` times, a multiple of `together`, on each of `ends` in turn. False when
/// one failed.
using Way = bool (*)(std::span<LoopBack> ends, std::uint64_t count);

constexpr std::array<std::string_view, 9> way_names{
    "raw", "by_id", "unsafe", "scoped", "blocking", "round", "chain", "batch", "unheld"};
struct Row {
  std::string_view operation;
  std::array<Way, way_names.size()> ways;
  std::uint64_t own_allocations = 1;  ///< of each run: who posts on which channel
};

/// A round of a halo; by scopes of its own.
[[nodiscard]] bool halo_by_verbs(std::span<LoopBack> ends, std::uint64_t count);
[[nodiscard]] bool halo_by_scopes(std::span<LoopBack> ends, std::uint64_t count);

/// Each operation alone, as only a null device can do it. A way that a service lacks is null.
[[nodiscard]] std::span<Row const> rows_alone() noexcept;
/// A send by the services that acknowledge nothing, likewise.
[[nodiscard]] std::span<Row const> rows_of_services() noexcept;
/// What a loop-back can do; a send comes with its receive. And a round of a halo, by two ways.
[[nodiscard]] std::span<Row const> rows_looped() noexcept;

}  // namespace lend::bench
