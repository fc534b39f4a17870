// SPDX-License-Identifier: MIT OR Apache-2.0
// One opened device. Any thread.
#include <lend/verbs/context.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <verbs/device/built_with.hpp>
#include <verbs/device/gid_table.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/device/port.hpp>

namespace lend {

std::string const& Context::name() const noexcept {
  return handle_->name;
}

DeviceKind Context::kind() const noexcept {
  return handle_->kind();
}

PortInfo const& Context::port() const noexcept {
  return handle_->port;
}

DeviceLimits const& Context::limits() const noexcept {
  return handle_->limits;
}

DeviceAttributes const& Context::attributes() const noexcept {
  return handle_->attributes;
}

Result<PortInfo> Context::query_port(std::uint8_t number) const {
  if (number == 0) number = handle_->port.number;
  return verbs::read_port(*handle_, number);
}

Result<std::vector<std::uint16_t>> Context::partition_keys() const {
  LEND_TRY(port, query_port());
  std::vector<std::uint16_t> keys;
  for (int index = 0; index < port.partition_key_count; ++index) {
    LEND_TRY(key, verbs::partition_key(*handle_, index));
    keys.push_back(key);
  }
  return keys;
}

DeviceCapabilities Context::capabilities() const noexcept {
  // But for atomics no verb asks for these: they are properties of the transport.
  bool const iwarp = handle_->is_iwarp();
  return {.endpoints = !iwarp,
          .rdma_cm = LEND_BUILT_WITH_CM != 0 && kind() != DeviceKind::soft,
          .immediates = !iwarp,
          .unreliable = !iwarp,
          .datagrams = !iwarp,
          .atomics = handle_->has_atomics,
          .windows = handle_->has_windows,
          .peer_loans = handle_->has_peer_loans,
          .paging_on_demand = handle_->has_paging_on_demand,
          .timestamps = handle_->has_timestamps(),
          .waits_for_receives = !iwarp,
          .acknowledges = !iwarp};
}

Result<std::vector<GidEntry>> Context::gids() const {
  return verbs::read_gids(*handle_);
}

ibv_context* Context::native() const noexcept {
  return handle_->raw.get();
}

Result<ProtectionDomain> Context::allocate_protection_domain() const {
  verbs::Provider const& provider = handle_->provider();
  errno = 0;
  verbs::RawHandle<ibv_pd, &verbs::Provider::dealloc_pd> raw{provider,
                                                             provider.alloc_pd(handle_->raw.get())};
  int const error = errno;
  if (!raw) return verbs::domain_error(*handle_, error);
  return ProtectionDomain{
      std::make_shared<verbs::DomainHandle>(verbs::DomainHandle{handle_, std::move(raw)})};
}

}  // namespace lend
