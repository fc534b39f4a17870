// SPDX-License-Identifier: MIT OR Apache-2.0
// Registered memory of another device, such as a graphics card. Any thread, but for moves and
// destruction.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

struct ibv_mr;

namespace lend {

/// Bytes of a dmabuf, from ProtectionDomain::register_dmabuf(). They are lent as a MemoryRegion's
/// are, and are never shown: the CPU may not be able to touch them. Nor are they sent inline.
///
/// On loan they live on until the last loan ends, as an owned region's bytes do. The trap: the
/// ledger does not see what the other device does with them; the program orders its work and the
/// network's.
class DeviceRegion {
 public:
  DeviceRegion(DeviceRegion&&) noexcept = default;
  DeviceRegion& operator=(DeviceRegion&&) noexcept = default;

  [[nodiscard]] std::size_t size() const noexcept { return region_.size(); }
  [[nodiscard]] GatherElement gather(std::size_t offset,
                                     std::size_t length) const& noexcept LEND_LIFETIMEBOUND {
    return region_.gather(offset, length);
  }
  [[nodiscard]] ScatterElement scatter(std::size_t offset,
                                       std::size_t length) & noexcept LEND_LIFETIMEBOUND {
    return region_.scatter(offset, length);
  }
  /// The whole region.
  [[nodiscard]] GatherElement gather() const& noexcept LEND_LIFETIMEBOUND {
    return region_.gather();
  }
  [[nodiscard]] ScatterElement scatter() & noexcept LEND_LIFETIMEBOUND { return region_.scatter(); }
  GatherElement gather(std::size_t, std::size_t) && = delete;  // a temporary ends before its loan
  ScatterElement scatter(std::size_t, std::size_t) && = delete;
  GatherElement gather() && = delete;
  ScatterElement scatter() && = delete;

  /// As MemoryRegion's.
  [[nodiscard]] std::size_t loans() const noexcept { return region_.loans(); }
  [[nodiscard]] Result<RemoteRegion> remote() const noexcept { return region_.remote(); }
  [[nodiscard]] std::uint32_t local_key() const noexcept { return region_.local_key(); }
  [[nodiscard]] ibv_mr* native() const noexcept { return region_.native(); }

 private:
  friend class ProtectionDomain;
  explicit DeviceRegion(MemoryRegion region) noexcept : region_{std::move(region)} {}
  MemoryRegion region_;
};

}  // namespace lend
