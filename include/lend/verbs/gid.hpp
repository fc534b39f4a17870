// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses of a port: the entries of its GID table, and which of them to use. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lend {

/// A port's address in network order: an IPv6 address, or an IPv4 one as ::ffff:a.b.c.d.
using Gid = std::array<std::uint8_t, 16>;

/// How packets with this address travel. Ends of different types never hear each other.
/// Source: ibv_query_gid_ex(3), enum ibv_gid_type.
enum class GidType : std::uint8_t {
  infiniband = 0,
  roce_v1 = 1,  ///< Ethernet frames, within one network
  roce_v2 = 2,  ///< UDP over IP, which routers pass on
};

/// One entry of a port's GID table that is set.
struct GidEntry {
  std::uint32_t index = 0;
  GidType type{};
  Gid gid{};

  friend bool operator==(GidEntry const&, GidEntry const&) = default;
};

/// Which entry a queue pair uses: by default the best one; else by index or by address, not both.
struct GidChoice {
  std::optional<std::uint32_t> index{};
  std::string address{};  ///< IPv4 or IPv6 as text; empty: any
};

[[nodiscard]] std::string_view name_of(GidType) noexcept;
/// "10.77.0.1" where it is an IPv4 address, else as IPv6: "fe80::1".
[[nodiscard]] std::string text_of(Gid const& gid);

}  // namespace lend
