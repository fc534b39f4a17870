// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes that peers may read for a while, by a key and without a registration. One thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>
#include <verbs/device/handles.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace lend::verbs {

/// Whatever is shown has a key of its own, which comes back after 2^18 times. Else the device
/// refuses a read of other bytes, by another queue pair than one of the domain, or after the end.
class LEND_EXPORT ShownBytes {
 public:
  /// Nothing: this device shows none, or no more.
  /// Errors:  those of a registration, but for exhausted.
  [[nodiscard]] static Result<std::optional<ShownBytes>> create(ProtectionDomain const& domain);

  /// Nothing: peers do not map these bytes, as they do those of allocate() on this device; or
  /// others are shown. Takes nothing from the heap.
  [[nodiscard]] std::optional<RemoteRegion> show(std::span<std::byte const> bytes) noexcept;
  /// Afterwards no peer reads them. Looks at each queue pair of the domain, and waits for a peer
  /// that is at work there.
  /// Errors:  system_failed  a peer may be in the middle of that, and has been for 2 s: they are
  ///                         still shown. Neither a later call nor the end waits again.
  [[nodiscard]] Result<void> hide() noexcept;

 private:
  using Registration = RawHandle<ibv_mr, &Provider::dereg_mr>;

  ShownBytes(std::shared_ptr<DomainHandle> domain, Registration registration) noexcept
      : domain_{std::move(domain)}, registration_{std::move(registration)} {}

  std::shared_ptr<DomainHandle> domain_;  // ends after the registration
  Registration registration_;
  bool are_shown_ = false;
};

}  // namespace lend::verbs
