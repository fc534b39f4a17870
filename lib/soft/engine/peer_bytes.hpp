// SPDX-License-Identifier: MIT OR Apache-2.0
// A peer's exposed bytes, for this process to touch without a request. Any thread.
#pragma once

#include <verbs/device/provider.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

/// Provider::peer_bytes. None of a device of one's own: its memory is unmapped with the region.
[[nodiscard]] verbs::PeerBytes peer_bytes(ibv_qp*, std::uint32_t key, std::uint64_t address,
                                          std::size_t length, unsigned access) noexcept;

}  // namespace lend::soft
