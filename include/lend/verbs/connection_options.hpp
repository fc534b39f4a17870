// SPDX-License-Identifier: MIT OR Apache-2.0
// How a connection uses the network, in every layer. Values; any thread.
#pragma once

#include <lend/verbs/gid.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace lend {

/// Of a reliable connection for which nothing else was asked: a peer that answers nothing is given
/// up after seven times this, by cards after up to four times as long.
inline constexpr std::chrono::milliseconds ack_timeout_unasked{67};
inline constexpr std::uint8_t ack_retries_unasked = 6;

/// How a connection goes over the network, and when its peer is given up: one meaning in channels,
/// transports, groups and queue pairs.
///
/// What the program leaves out is as the environment variable at the right says, which is read
/// whenever a connection is prepared; else the default. A wish that cannot be obeyed is refused by
/// name, that of a variable, too, unless the service has no use for it.
struct ConnectionOptions {
  GidChoice gid{};  ///< this end's address; LEND_GID; the first of Context::gids()
  /// Payload of a packet, at most: 256, 512, 1024, 2048 or 4096, not above the port's; LEND_MTU;
  /// the port's. Of both ends the smaller one applies.
  std::optional<std::uint32_t> mtu_bytes{};
  /// 0 to 15: InfiniBand's SL, the priority of Ethernet; LEND_SERVICE_LEVEL; the peer's, but not by
  /// rdma_cm; or 0.
  std::optional<std::uint8_t> service_level{};
  /// Of IPv6 and RoCE v2: DSCP · 4 + ECN; LEND_TRAFFIC_CLASS; the peer's, or 0. So one end that
  /// chooses is enough; where both do, each has its own.
  std::optional<std::uint8_t> traffic_class{};
  /// The partition, by its key in Context::partition_keys(), which the peer needs, too;
  /// LEND_PARTITION_KEY; the first. A full membership (bit 15) is preferred.
  std::optional<std::uint16_t> partition_key{};
  /// How long the device waits for an acknowledgement: above 0, at most 2.4 hours, rounded up to
  /// 4.096 µs · 2^n; LEND_ACK_TIMEOUT; 67 ms. Of reliable connections alone, as the next.
  std::optional<std::chrono::nanoseconds> ack_timeout{};
  /// 0 to 7; LEND_ACK_RETRIES; 6. On SoftRoCE 7 is unlimited (rxe_comp.c).
  std::optional<std::uint8_t> ack_retries{};
};

/// A value in force and where it is from: {"traffic_class", "106 (DSCP 26, ECN 2)",
/// "LEND_TRAFFIC_CLASS"}.
struct Setting {
  std::string name{};
  std::string value{};
  std::string source{};  ///< "program", the variable, "peer" or "default"
};

}  // namespace lend
