// SPDX-License-Identifier: MIT OR Apache-2.0
// One of two hosts that run the same test program against each other. The one that the environment
// says listens (LEND_TEST_LISTENS=1) accepts, the other connects. One thread.
//
//   LEND_TEST_DEVICE, LEND_TEST_ADDRESS   this host's device and its IP address
//   LEND_TEST_CONTROL                     host:port for words beside the fabric, on another network
//   LEND_TEST_LINK                        the device's netdev, which a test takes down
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/peer_process.hpp"

namespace lend::test {

/// How long anything here may take: a guest's emulated processors may be slow.
inline constexpr std::chrono::seconds bound{60};

/// To the other host; `is_peers()` on the one that accepts.
[[nodiscard]] Wire const& wire();

enum class Way { endpoints, rdma_cm };

/// Else the running test is skipped for that way.
[[nodiscard]] bool is_possible(Way way);

struct HostEnd {
  Context context;
  ProtectionDomain domain;
  Channel channel;
};

/// Both hosts call this; each gets its end of one channel.
[[nodiscard]] HostEnd meet(Way way, ChannelOptions const& options = {});

/// Tells the peer of `mine` and returns what it tells.
[[nodiscard]] RemoteRegion swap_regions(MemoryRegion const& mine);

/// No two numbers give the same bytes.
void fill(MemoryRegion& memory, std::size_t offset, std::size_t length, std::uint32_t number);
/// FNV-1a, 64 bits. Source: draft-eastlake-fnv.
[[nodiscard]] std::uint64_t checksum(MemoryRegion const& memory, std::size_t offset,
                                     std::size_t length);
void put_number(MemoryRegion& memory, std::size_t offset, std::uint64_t number);
[[nodiscard]] std::uint64_t number_at(MemoryRegion const& memory, std::size_t offset);

}  // namespace lend::test
