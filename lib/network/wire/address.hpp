// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses as people write them, and as sockets want them. Plain values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/gid.hpp>

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct ifaddrs;

namespace lend::network {

/// "host:port" or "[IPv6]:port", taken apart.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(HostAndPort const&, HostAndPort const&) = default;
};

/// Errors:  invalid_argument  says what is wrong with `text`.
[[nodiscard]] LEND_EXPORT Result<HostAndPort> parse_address(std::string_view text);

/// An address for bind(2) and connect(2).
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  [[nodiscard]] sockaddr* native() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] sockaddr const* native() const noexcept {
    return reinterpret_cast<sockaddr const*>(&storage);
  }
  [[nodiscard]] bool is_local() const noexcept { return storage.ss_family == AF_UNIX; }
  /// Of the loopback device.
  [[nodiscard]] bool is_loopback() const noexcept;
  /// [::], which is all addresses of both families.
  [[nodiscard]] bool is_any() const noexcept;
  /// 0: a port of the system's choice. Shape: not is_local().
  [[nodiscard]] LEND_EXPORT std::uint16_t port() const noexcept;
  void set_port(std::uint16_t port) noexcept;
  /// "127.0.0.1:80", "[::1]:80", "unix:/run/desk" or "unix:@desk".
  [[nodiscard]] LEND_EXPORT std::string to_text() const;
};

/// "unix:PATH" or, for a name without a file, "unix:@NAME": a socket of this host.
[[nodiscard]] LEND_EXPORT bool is_local_address(std::string_view text) noexcept;

/// Shape:   is_local_address(text).
/// Errors:  invalid_argument  no path, a zero byte, or more than fits.
/// Source:  unix(7).
[[nodiscard]] LEND_EXPORT Result<SocketAddress> parse_local_address(std::string_view text);

/// The addresses of a host, never none, in the order to try them. A name may go through the
/// resolver, which knows no deadline; numbers do not.
///
/// Errors:  not_found  no such host, as far as is known now. exhausted, system_failed  from the
///                     resolver.
/// Source:  getaddrinfo(3).
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(HostAndPort const& address);

/// The addresses that `text` names, to listen at or to connect to.
/// Errors:  those of parse_address(), parse_local_address() and resolve(), and
///          invalid_argument  port 0, where `connects`.
[[nodiscard]] LEND_EXPORT Result<std::vector<SocketAddress>> candidates_at(std::string_view text,
                                                                           bool connects);

/// The host that a resolver is to look up before one connects to `text`; empty: it has a number, or
/// is a local socket.
/// Errors:  invalid_argument  as candidates_at().
[[nodiscard]] Result<std::string> name_in(std::string_view text);

/// The address that `text` names without a resolver: a number, or a local socket.
/// Errors:  invalid_argument  a host name; and those of candidates_at().
[[nodiscard]] Result<SocketAddress> numeric_address_at(std::string_view text);

/// Where rank 0 listens for ranks that know it by the name in `text`: at all of its addresses.
/// Where these are those of the loopback device, as Debian's /etc/hosts has them for a host's own
/// name, others know other ones: on every interface. A number, and localhost, mean what they say.
/// Shape:   `found` is what candidates_at() found.
[[nodiscard]] LEND_EXPORT std::vector<SocketAddress> as_others_come(
    std::string_view text, std::vector<SocketAddress> found);

/// An IP address of this host.
struct OwnAddress {
  std::string interface {};
  bool is_ipv4 = false;
  std::string text{};  ///< without brackets

  friend bool operator==(OwnAddress const&, OwnAddress const&) = default;
};

/// Those of a list of getifaddrs(3), IPv4 first. Link-local IPv6 is left out: it names no link.
[[nodiscard]] std::vector<OwnAddress> addresses_in(ifaddrs const* first);
/// The same of this host.
/// Errors:  as errno of getifaddrs(3).
[[nodiscard]] Result<std::vector<OwnAddress>> own_addresses();

/// Those of the interfaces with this hardware address: of an iWARP port, whose GID begins with it.
/// rdma_cm finds the device of an IP address so.
/// Errors:  as own_addresses().
/// Source:  Linux include/rdma/ib_addr.h, iw_addr_get_sgid().
[[nodiscard]] LEND_EXPORT Result<std::vector<OwnAddress>> own_addresses_of_iwarp(Gid const& gid);

}  // namespace lend::network
