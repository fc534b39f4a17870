// SPDX-License-Identifier: MIT OR Apache-2.0
// One opened device on one port. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/capabilities.hpp>
#include <lend/verbs/connection_options.hpp>
#include <lend/verbs/device.hpp>
#include <lend/verbs/gid.hpp>

#include <memory>
#include <string>
#include <vector>

struct ibv_context;

namespace lend {

class ProtectionDomain;
namespace verbs {
class EventQueue;
struct ContextHandle;
}  // namespace verbs

/// An open device. Cheap to copy; closed after its last copy and the last object made from it.
class LEND_EXPORT Context {
 public:
  explicit Context(std::shared_ptr<verbs::ContextHandle> handle) noexcept
      : handle_{std::move(handle)} {}
  // A move copies: the moved-from object remains usable.
  Context(Context const&) = default;
  Context& operator=(Context const&) = default;

  [[nodiscard]] std::string const& name() const noexcept;
  [[nodiscard]] DeviceKind kind() const noexcept;
  [[nodiscard]] PortInfo const& port() const noexcept;
  [[nodiscard]] DeviceLimits const& limits() const noexcept;
  [[nodiscard]] DeviceAttributes const& attributes() const noexcept;
  [[nodiscard]] DeviceCapabilities capabilities() const noexcept;

  /// Asks the device how port `number` is now, whatever its state; 0: the port of this Context.
  /// Errors:  not_found      no such port; the message says which there are.
  ///          system_failed  the call failed; its errno may give a more specific code.
  /// Source:  ibv_query_port(3).
  [[nodiscard]] Result<PortInfo> query_port(std::uint8_t number = 0) const;

  /// The keys of the partitions that this port belongs to, by index. Bit 15 says: as a full member.
  /// Errors:  system_failed  the port's table could not be read.
  /// Source:  ibv_query_pkey(3).
  [[nodiscard]] Result<std::vector<std::uint16_t>> partition_keys() const;

  /// The port's addresses, best first: RoCE v2 before v1; then IPv4, IPv6, link-local IPv6; on
  /// InfiniBand by index. A queue pair uses the first unless its options name another.
  /// Errors:  system_failed  the port's GID table could not be read.
  /// Source:  ibv_query_gid_ex(3).
  [[nodiscard]] Result<std::vector<GidEntry>> gids() const;

  /// What a reliable connection of this port with `options` would get, and why;
  /// Channel::settings() has what it got.
  /// Errors:  those of PreparedQueuePair::create() for these options.
  [[nodiscard]] Result<std::vector<Setting>> settings(ConnectionOptions const& options = {}) const;

  /// Makes a protection domain. A queue pair can use only regions of its own domain.
  /// Errors:  exhausted  the message has the device's limit.
  ///          denied     EPERM, although memory may be locked.
  /// Source:  ibv_alloc_pd(3).
  [[nodiscard]] Result<ProtectionDomain> allocate_protection_domain() const;

  /// For verbs that lend does not wrap. It belongs to the Context: never close it. Its asynchronous
  /// events come by DeviceEvents, because lend reads them; their descriptor does not block.
  ///
  /// Inline verbs (ibv_post_send, ibv_poll_cq, ibv_query_port, ibv_query_device_ex) work on every
  /// device. On the soft device the exported functions of libibverbs refuse this context and all
  /// objects of it with EOPNOTSUPP. Never call there, because libibverbs asks no device: it reads
  /// events as another structure (ibv_get_async_event, ibv_get_cq_event), frees what it did not
  /// allocate (ibv_destroy_comp_channel), or crashes (ibv_open_device of this device). A libibverbs
  /// whose private interface is not IBVERBS_PRIVATE_34 crashes in all of them. A program that runs
  /// under liblend-preload.so may make all these calls.
  /// Source:  rdma-core libibverbs/device.c, verbs.c, dummy_ops.c.
  [[nodiscard]] ibv_context* native() const noexcept;

 private:
  friend class CompletionChannel;
  friend class CompletionQueue;
  friend class DeviceClock;
  friend class verbs::EventQueue;
  std::shared_ptr<verbs::ContextHandle> handle_;
};

}  // namespace lend
