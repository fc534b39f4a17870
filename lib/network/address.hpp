// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses as people write them, and as sockets want them. Plain values; any thread.
#pragma once

#include <lend/base/result.hpp>

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lend::network {

/// "host:port" or "[IPv6]:port", taken apart.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(HostAndPort const&, HostAndPort const&) = default;
};

/// Errors:  invalid_argument  says what is wrong with `text`.
[[nodiscard]] Result<HostAndPort> parse_address(std::string_view text);

/// An address for bind(2) and connect(2).
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  [[nodiscard]] sockaddr* native() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] sockaddr const* native() const noexcept {
    return reinterpret_cast<sockaddr const*>(&storage);
  }
  /// "127.0.0.1:80" or "[::1]:80".
  [[nodiscard]] std::string to_text() const;
};

/// The addresses of a host, never none, in the order to try them. A name may go through the
/// resolver, which knows no deadline; numbers do not.
///
/// Errors:  not_found  no such host. exhausted, system_failed  from the resolver.
/// Source:  getaddrinfo(3).
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(HostAndPort const& address);

}  // namespace lend::network
