// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading a port's GID table and choosing from it. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/gid.hpp>
#include <verbs/handles.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lend {

/// Lower is better: RoCE v2 before v1; then IPv4, IPv6, and link-local IPv6 last, which works only
/// within one link. Entries of InfiniBand are alike.
[[nodiscard]] int rank_of(GidEntry const& entry) noexcept;

/// All entries that are set, best first; of the same rank the lower index.
/// Errors:  the first that is not ENODATA, where no entry could be read.
/// Source:  ibv_query_gid_ex(3).
[[nodiscard]] Result<std::vector<GidEntry>> read_gids(ContextHandle const& context);

/// The entry that `choice` means on the context's port; one without an address where the port has
/// none and needs none (InfiniBand reached by LID, iWARP).
/// Errors:  not_found         no such entry, or an Ethernet port without any; says what there is.
///          invalid_argument  index and address at once, or an address that is none.
///          unsupported       a choice on iWARP, whose addresses rdma_cm picks.
[[nodiscard]] Result<GidEntry> choose_gid(ContextHandle const& context, GidChoice const& choice);

/// The reverse of text_of(), and of any other way to write the address.
[[nodiscard]] std::optional<Gid> gid_of_text(std::string const& text) noexcept;

/// Whether a GID is an IPv4 address: ::ffff:a.b.c.d. Source: RFC 4291 §2.5.5.2.
[[nodiscard]] bool is_ipv4_mapped(Gid const& gid) noexcept;

/// "1: 10.77.0.1 (RoCE v2), 0: fe80::1 (RoCE v2)", or "none".
[[nodiscard]] std::string text_of(std::vector<GidEntry> const& entries);

}  // namespace lend
