// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads a port's GID table and chooses from it. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/gid.hpp>
#include <verbs/device/handles.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lend::verbs {

/// Lower is better: RoCE v2 before v1; then IPv4, IPv6, and link-local addresses, which work only
/// within one link. All entries of InfiniBand have the same rank.
[[nodiscard]] LEND_EXPORT int rank_of(GidEntry const& entry) noexcept;

/// All used entries, best first; within a rank by index.
/// Errors:  the first other than ENODATA, if no entry could be read.
/// Source:  ibv_query_gid_ex(3).
[[nodiscard]] Result<std::vector<GidEntry>> read_gids(ContextHandle const& context);

/// The entry that `choice` selects on the context's port; one without an address if the port has
/// none and needs none (InfiniBand reached by LID, iWARP).
/// Errors:  not_found         no such entry, or an Ethernet port without any; lists those that
///                            exist.
///          invalid_argument  more than one of index, address and network, or text that is none.
///          unsupported       a choice on iWARP, where rdma_cm selects addresses.
[[nodiscard]] LEND_EXPORT Result<GidEntry> choose_gid(ContextHandle const& context,
                                                      GidChoice const& choice);

/// The reverse of text_of(), for any notation of the address.
[[nodiscard]] LEND_EXPORT std::optional<Gid> gid_of_text(std::string const& text) noexcept;

/// A prefix of addresses.
struct Network {
  Gid prefix{};
  unsigned bits = 0;  ///< of the 128 of a GID
};
/// "10.1.0.0/16" or "fd00::/8"; bits of a host are passed over.
[[nodiscard]] std::optional<Network> network_of_text(std::string_view text);
[[nodiscard]] bool is_in(Network const& network, Gid const& gid) noexcept;

/// Whether a GID is an IPv4 address: ::ffff:a.b.c.d. Source: RFC 4291 §2.5.5.2.
[[nodiscard]] LEND_EXPORT bool is_ipv4_mapped(Gid const& gid) noexcept;

/// "1: 10.77.0.1 (RoCE v2), 0: fe80::1 (RoCE v2)", or "none".
[[nodiscard]] LEND_EXPORT std::string text_of(std::vector<GidEntry> const& entries);

}  // namespace lend::verbs
