// SPDX-License-Identifier: MIT OR Apache-2.0
// Where a rank awaits another one. A value, 34 bytes; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/verbs/gid.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lend {

/// Where a rank awaits the connection of another one, on devices that no endpoints connect (iWARP).
struct LEND_EXPORT LinkAddress {
  using Key = std::array<std::byte, 16>;

  Gid host{};  ///< an IP address, of IPv4 mapped to IPv6; all zero: none
  std::uint16_t port = 0;
  Key key{};  ///< random: the other rank shows it, and no other connection does

  static constexpr std::size_t encoded_size = 34;
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const noexcept;
  /// Any bytes are an address.
  [[nodiscard]] static LinkAddress decode(std::span<std::byte const, encoded_size> bytes) noexcept;

  friend bool operator==(LinkAddress const&, LinkAddress const&) = default;
};

}  // namespace lend
