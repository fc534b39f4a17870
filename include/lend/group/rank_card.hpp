// SPDX-License-Identifier: MIT OR Apache-2.0
// What one rank of a group gives another to connect to it. A value, 166 bytes; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/network/link_address.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/remote_region.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lend {

/// The end of a link, and memory of the group for the other rank's device: nothing of the program's
/// is exposed. A decoded card is untrusted until PreparedGroup::handshake().
struct LEND_EXPORT RankCard {
  Endpoint endpoint{};
  RemoteRegion record{};   ///< to be read: what the rank is in, and its long values
  RemoteRegion mailbox{};  ///< of this link, to be written: short messages; empty: all are sent
  LinkAddress address{};   ///< where the rank is awaited, if endpoints do not connect its device
  std::uint32_t message_bytes = 0, window = 0;  ///< of its GroupOptions: the same at all ranks

  static constexpr std::size_t encoded_size = Endpoint::encoded_size +
                                              2 * RemoteRegion::encoded_size +
                                              LinkAddress::encoded_size + 3 * sizeof(std::uint32_t);
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Errors:  those of Endpoint::decode() and RemoteRegion::decode(), and
  ///          incompatible_peer  not encoded_size bytes, or of another version of lend.
  [[nodiscard]] static Result<RankCard> decode(std::span<std::byte const> bytes);

  friend bool operator==(RankCard const&, RankCard const&) = default;
};

}  // namespace lend
