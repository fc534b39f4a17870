// SPDX-License-Identifier: MIT OR Apache-2.0
// What a program changes of a queue pair by hand, and what a query says of it. Values; any thread.
#pragma once

#include <lend/base/quantity.hpp>
#include <lend/base/work_failure.hpp>
#include <lend/verbs/gid.hpp>
#include <lend/verbs/remote_region.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

namespace lend {

/// The way to a peer. Source: ibv_modify_qp(3), struct ibv_ah_attr.
struct PeerPath {
  std::optional<std::uint8_t> port{};  ///< of this end: the queue pair's; nothing: the context's
  std::uint16_t lid = 0;               ///< the peer's, on InfiniBand
  std::optional<Gid> gid{};            ///< the peer's, which RoCE needs
  std::uint8_t gid_index = 0;          ///< this end's entry of Context::gids(); with `gid`
  std::uint8_t hop_limit = 255;        ///< with `gid`
  std::uint8_t traffic_class = 0;      ///< with `gid`
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;  ///< low bits of this end's LID

  friend bool operator==(PeerPath const&, PeerPath const&) = default;
};

/// One transition of a queue pair, or a change within a state: what is set is changed. Which
/// attributes a transition needs and takes depends on the service; an error names those that are
/// missing and those that are too many. Times are rounded up as in QueuePairOptions.
///
/// Alternate paths are not offered: the devices of RoCE have none.
/// Source:  ibv_modify_qp(3); Linux drivers/infiniband/core/verbs.c, qp_state_table.
struct QueuePairChange {
  std::optional<QueuePairState> to{};              ///< nothing: the state stays
  std::optional<QueuePairState> from{};            ///< refused if it is in another state
  std::optional<RemoteAccess> remote_access{};     ///< of connections
  std::optional<std::uint16_t> partition_index{};  ///< in Context::partition_keys()
  std::optional<std::uint8_t> port{};
  std::optional<std::uint32_t> queue_key{};  ///< of datagrams
  std::optional<PeerPath> path{};
  std::optional<std::uint32_t> mtu_bytes{};  ///< 256, 512, 1024, 2048 or 4096
  std::optional<QueuePairNumber> peer{};
  std::optional<PacketSequenceNumber> receive_from{};  ///< the peer's first packet
  std::optional<PacketSequenceNumber> send_from{};     ///< this end's first packet
  std::optional<std::uint8_t> reads_in_flight{};
  std::optional<std::uint8_t> reads_served{};
  std::optional<std::chrono::nanoseconds> receiver_not_ready_delay{};
  std::optional<std::uint8_t> receiver_not_ready_retries{};  ///< 0 to 7; 7: unlimited
  std::optional<std::chrono::nanoseconds> ack_timeout{};     ///< 0: unlimited
  std::optional<std::uint8_t> ack_retries{};                 ///< 0 to 7
  std::optional<bool> tells_when_drained{};  ///< to send_queue_drained: one DeviceEvent at its end
};

/// A queue pair as the device reports it; what its state or service does not use is undefined.
/// Source: ibv_query_qp(3).
struct QueuePairFacts {
  QueuePairState state{};
  bool is_draining = false;  ///< in send_queue_drained, and requests are still under way
  RemoteAccess remote_access{};
  std::uint16_t partition_index = 0;
  std::uint8_t port = 0;
  std::uint32_t queue_key = 0;
  PeerPath path{};
  std::uint32_t mtu_bytes = 0;
  QueuePairNumber peer{};
  PacketSequenceNumber receive_from{};
  PacketSequenceNumber send_from{};
  std::uint8_t reads_in_flight = 0;
  std::uint8_t reads_served = 0;
  std::chrono::nanoseconds receiver_not_ready_delay{};
  std::uint8_t receiver_not_ready_retries = 0;  ///< 7: unlimited
  std::chrono::nanoseconds ack_timeout{};       ///< 0: unlimited
  std::uint8_t ack_retries = 0;
  std::uint32_t send_depth = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t elements = 0;
  std::uint32_t receive_elements = 0;
  std::uint32_t inline_bytes = 0;
};

}  // namespace lend
