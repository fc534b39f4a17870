// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses as text, and as rdma_cm takes them. Values; any thread.
#pragma once

#include <lend/base/result.hpp>

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace lend::cm {

/// What becomes of a host that is a name.
enum class HostNames : bool { refused, looked_up };

/// An IP address and a port.
struct CmAddress {
  sockaddr_storage storage{};

  /// `text` is "host:port", or "host" where `local`; IPv6 in brackets. Looking up a name may take
  /// any time.
  /// Errors:  invalid_argument  says what is wrong. not_found  no such host.
  /// Source:  rdma_getaddrinfo(3).
  [[nodiscard]] static Result<CmAddress> parse(std::string_view text, bool local, HostNames names);
  [[nodiscard]] static CmAddress of(sockaddr const& address) noexcept;

  // librdmacm takes non-const pointers to data that it does not change.
  [[nodiscard]] sockaddr* native() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  /// "192.0.2.1:7471" or "[fe80:0:0:0:0:0:0:1]:7471".
  [[nodiscard]] std::string to_text() const;
};

[[nodiscard]] bool is_ipv6(std::string const& host) noexcept;
/// "10.0.0.1:7471", "[fe80::1]:7471"
[[nodiscard]] std::string address_of(std::string const& host, std::uint16_t port);

/// Errors:  unsupported  it cannot be loaded.
[[nodiscard]] Result<void> require_librdmacm();

}  // namespace lend::cm
