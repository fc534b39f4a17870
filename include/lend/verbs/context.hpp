// SPDX-License-Identifier: MIT OR Apache-2.0
// One opened device on one port. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/capabilities.hpp>
#include <lend/verbs/device.hpp>
#include <lend/verbs/gid.hpp>

#include <memory>
#include <string>
#include <vector>

struct ibv_context;

namespace lend {

class ProtectionDomain;
struct ContextHandle;

/// An open device. Cheap to copy; closes with its last copy and the last thing made from it.
class Context {
 public:
  explicit Context(std::shared_ptr<ContextHandle> handle) noexcept : handle_{std::move(handle)} {}
  // A move copies: what was moved from works on.
  Context(Context const&) = default;
  Context& operator=(Context const&) = default;

  [[nodiscard]] std::string const& name() const noexcept;
  [[nodiscard]] DeviceKind kind() const noexcept;
  [[nodiscard]] PortInfo const& port() const noexcept;
  [[nodiscard]] DeviceLimits const& limits() const noexcept;
  [[nodiscard]] DeviceCapabilities capabilities() const noexcept;

  /// The addresses of the port, best first: RoCE v2 before v1; then IPv4, IPv6, and link-local IPv6
  /// last; by index on InfiniBand. A queue pair takes the first unless its options say otherwise.
  /// Errors:  system_failed  the port's GID table could not be read.
  /// Source:  ibv_query_gid_ex(3).
  [[nodiscard]] Result<std::vector<GidEntry>> gids() const;

  /// Makes a protection domain: regions and queue pairs of different domains never mix.
  /// Errors:  exhausted  the message has how many there can be.
  ///          denied     EPERM, where memory may be locked.
  /// Source:  ibv_alloc_pd(3).
  [[nodiscard]] Result<ProtectionDomain> allocate_protection_domain() const;

  [[nodiscard]] ibv_context* native() const noexcept;

 private:
  friend class CompletionQueue;
  std::shared_ptr<ContextHandle> handle_;
};

}  // namespace lend
