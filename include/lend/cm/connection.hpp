// SPDX-License-Identifier: MIT OR Apache-2.0
// A connection made by rdma_cm, the same on both sides. Values; one thread at a time.
#pragma once

#include <lend/verbs/queue_pair.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lend {

/// Maximum bytes of program data in a request and in its answer.
/// Source: rdma_connect(3): 56 bytes in all, 24 of which lend uses.
inline constexpr std::size_t cm_private_bytes_max = 32;
/// Maximum bytes of a rejection's reason; a longer one is cut.
inline constexpr std::size_t cm_reason_bytes_max = 128;

/// What the peer sent about itself, checked.
struct CmPeer {
  std::string address;  ///< "192.0.2.1:7471"
  std::uint32_t send_depth = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t message_bytes_max = 0;
  std::vector<std::byte> private_data{};  ///< sent by the peer's program
};

/// A connected queue pair: give it to PreparedChannel::adopt().
///
/// The channel watches the connection: when the peer disconnects or dies, or the device is removed,
/// its waits end with Errc::peer_lost. Destroying the connection disconnects.
///
/// The caller owes, before adopt(): nothing was posted by its unsafe_post_*(). Post receives for
/// the peer's first messages by PreparedChannel::post_receive(), before take_queue_pair(): on iWARP
/// a message without a receive ends the connection. The protocol of iWARP also demands that the
/// side which called cm_connect() sends first.
/// Source: rdma_connect(3), IWARP SPECIFIC; RFC 5044, 7.1 (MPA connection setup);
/// DeviceCapabilities::waits_for_receives.
struct CmConnection {
  QueuePair queue_pair;
  CmPeer peer;
};

}  // namespace lend
