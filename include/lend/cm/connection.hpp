// SPDX-License-Identifier: MIT OR Apache-2.0
// What connecting by rdma_cm yields, the same on both sides. Values; one thread at a time.
#pragma once

#include <lend/verbs/queue_pair.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lend {

/// Bytes of the program's own that travel with a request and with its answer, at most.
/// Source: rdma_connect(3): 56 bytes in all; lend's contract takes 24 of them.
inline constexpr std::size_t cm_private_bytes_max = 32;
/// Bytes of a rejection's reason that travel, at most; a longer one is cut.
inline constexpr std::size_t cm_reason_bytes_max = 128;

/// What the peer said of itself, checked.
struct CmPeer {
  std::string address;  ///< "192.0.2.1:7471"
  std::uint32_t send_depth = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t message_bytes_max = 0;
  std::vector<std::byte> private_data{};  ///< the peer program's own bytes
};

/// A connected queue pair: give it to PreparedChannel::adopt().
///
/// It watches its connection: when the peer disconnects or dies, or the device is removed, waits of
/// the channel end with Errc::peer_lost. It disconnects when it is destroyed.
///
/// The caller owes, where it is adopted: nothing was posted on it by its unsafe_post_*(). So adopt
/// it first, then post receives. A message that comes sooner waits for its receive, but on iWARP it
/// ends the connection. There, too, the side that called cm_connect() must send first: let it wait
/// until it is told by other means, a socket for instance, that its peer's receives are posted.
/// Source: rdma_connect(3), IWARP SPECIFIC; DeviceCapabilities::waits_for_receives.
struct CmConnection {
  QueuePair queue_pair;
  CmPeer peer;
};

}  // namespace lend
