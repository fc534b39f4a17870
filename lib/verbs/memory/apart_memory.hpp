// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that peers may store into without a request, and theirs as this process has mapped it.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>
#include <verbs/device/handles.hpp>

#include <cstddef>
#include <optional>

namespace lend::verbs {

struct LEND_EXPORT ApartMemory {
  /// As ProtectionDomain::allocate(), or unsafe_allocate_exposed(). Where peers map this device's
  /// memory, those that have do so after the region has ended, too: they find its bytes as it left
  /// them, and what they store meets no others.
  [[nodiscard]] static Result<MemoryRegion> allocate(
      ProtectionDomain const& domain, std::size_t length,
      std::optional<RemoteAccess> exposed = std::nullopt);
};

/// The bytes of `region`, which is the peer's, as this process has mapped them. None where they
/// begin at no multiple of `alignment`. Of a connected queue pair, to be asked once: it takes
/// system calls.
[[nodiscard]] LEND_EXPORT PeerBytes peer_bytes(QueuePairHandle const& queue_pair,
                                               RemoteRegion const& region,
                                               std::size_t alignment) noexcept;

}  // namespace lend::verbs
