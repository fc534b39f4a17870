// SPDX-License-Identifier: MIT OR Apache-2.0
// The address of one end: a value, 56 bytes, or one line of text. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/quantity.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/device.hpp>
#include <lend/verbs/gid.hpp>
#include <lend/verbs/service.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lend {

/// The address of one end of a connection, which the peer needs to connect; or
/// of a queue pair for datagrams.
///
/// Send it to the peer by any means, get the peer's, and give that to `handshake()`, which checks
/// it against this end before anything is connected. A decoded endpoint is untrusted until then.
/// For a peer that does not use lend, fill in every field with the peer's values.
struct LEND_EXPORT Endpoint {
  DeviceKind device_kind{};
  LinkLayer link_layer{};
  QueuePairNumber queue_pair_number;
  PacketSequenceNumber packet_sequence_number;  ///< random: packets of an old connection do not fit
  std::uint16_t lid = 0;
  Gid gid{};  ///< all zero: none
  GidType gid_type{};
  std::uint8_t reads_served = 0;  ///< reads of the peer that this end serves concurrently
  std::uint32_t mtu_bytes = 0;    ///< 256, 512, 1024, 2048 or 4096
  // Which its packets have. A peer for which nothing was chosen takes them, so that what it answers
  // is of the same class.
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;  ///< 0 to 15
  // For the program, which reads them from Channel::peer(): handshake() refuses only 0, because any
  // two depths fit. A send waits for a receive; where it does not (iWARP), receive_depth bounds
  // the messages that may be under way.
  std::uint32_t send_depth = 0;
  std::uint32_t receive_depth = 0;
  Service service = Service::reliable_connection;
  std::uint32_t queue_key = 0;  ///< of a queue pair for datagrams: what reaches it has this key

  [[nodiscard]] bool has_gid() const noexcept;

  static constexpr std::size_t encoded_size = 56;
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Errors:  incompatible_peer  not an endpoint, damaged, of another version, or out of range; the
  ///                             message says which.
  [[nodiscard]] static Result<Endpoint> decode(std::span<std::byte const> bytes);

  /// One line without spaces, for a file or a command line.
  [[nodiscard]] std::string to_text() const;
  /// Errors:  as decode(). Surrounding white space is allowed.
  [[nodiscard]] static Result<Endpoint> from_text(std::string_view text);

  friend bool operator==(Endpoint const&, Endpoint const&) = default;
};

}  // namespace lend
