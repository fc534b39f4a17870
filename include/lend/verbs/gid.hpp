// SPDX-License-Identifier: MIT OR Apache-2.0
// A port's addresses, which are the entries of its GID table. Values; any thread.
#pragma once

#include <lend/base/export.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lend {

/// A port's address in network order: an IPv6 address, or an IPv4 one mapped to IPv6 (RFC 4291).
using Gid = std::array<std::uint8_t, 16>;

/// How packets with this address are sent. Ends with different types cannot connect.
/// Source: ibv_query_gid_ex(3), enum ibv_gid_type.
enum class GidType : std::uint8_t {
  infiniband = 0,
  roce_v1 = 1,  ///< Ethernet frames, within one network
  roce_v2 = 2,  ///< UDP over IP, routable
};

/// One used entry of a port's GID table.
struct GidEntry {
  std::uint32_t index = 0;
  GidType type{};
  Gid gid{};
  std::uint32_t network_interface = 0;  ///< its index on this host, for RoCE; 0: none

  friend bool operator==(GidEntry const&, GidEntry const&) = default;
};

/// Which entry a queue pair uses: by default the best one; or by one of these.
struct GidChoice {
  std::optional<std::uint32_t> index{};
  std::string address{};  ///< IPv4 or IPv6 as text; empty: any
  /// "10.1.0.0/16", "fd00::/8": the best entry in this network; "0.0.0.0/0": any IPv4 address.
  /// The one choice that fits all hosts of a cluster, whose indices differ.
  std::string network{};

  friend bool operator==(GidChoice const&, GidChoice const&) = default;
};

[[nodiscard]] LEND_EXPORT std::string_view name_of(GidType) noexcept;
/// "eth0": the network interface of `entry`; empty if it has none, or if that is gone.
/// Source: if_indextoname(3).
[[nodiscard]] LEND_EXPORT std::string network_interface_of(GidEntry const& entry);
/// "10.77.0.1" for an IPv4 address, otherwise IPv6: "fe80::1".
[[nodiscard]] LEND_EXPORT std::string text_of(Gid const& gid);

}  // namespace lend
