// SPDX-License-Identifier: MIT OR Apache-2.0
// Parses, resolves and prints rdma_cm's addresses. Any thread.
#include <base/host_name.hpp>
#include <base/printable.hpp>
#include <base/standard_reserved.hpp>
#include <cm/address.hpp>
#include <verbs/device/rdma_core_library.hpp>

#include <endian.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

namespace lend::cm {

namespace {

struct Parts {
  std::string host;
  std::string port;
};

Error malformed(std::string_view text, std::string_view why) {
  return Error{Errc::invalid_argument, "\"" + base::shown(text) +
                                           "\" is no address: " + std::string{why} +
                                           "; write host:port, an IPv6 host in brackets"};
}

Result<Parts> split(std::string_view text, bool local) {
  Parts parts;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    auto const end = rest.find(']');
    if (end == std::string_view::npos) return malformed(text, "a bracket is not closed");
    parts.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    auto const end = rest.find(':');
    parts.host = rest.substr(0, end);
    rest.remove_prefix(parts.host.size());
  }
  if (parts.host.empty()) return malformed(text, "the host is missing");
  if (parts.host.size() > base::host_length_max)
    return malformed(text, "a host has at most 253 characters");
  if (!base::has_host_characters(parts.host))
    return malformed(text, "the host has a character no host name has");
  if (rest.empty() && local) return Parts{std::move(parts.host), "0"};
  if (!rest.starts_with(':')) return malformed(text, "the port is missing");
  rest.remove_prefix(1);
  std::uint16_t port = 0;
  auto const [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  if (rest.empty() || error != std::errc{} || end != rest.data() + rest.size())
    return malformed(text, "the port is not a number of 0 to 65535");
  if (port == 0 && !local) return malformed(text, "no peer listens on port 0");
  parts.port = rest;
  return parts;
}

}  // namespace

Result<void> require_librdmacm() {
  if (auto const obstacle = verbs::librdmacm().obstacle(); !obstacle.empty())
    return Error{Errc::unsupported, "rdma_cm needs librdmacm: " + base::shown(obstacle, 200) +
                                        ". Install it, or connect over TCP with lend::connect()."};
  return success();
}

Result<CmAddress> CmAddress::parse(std::string_view text, bool local, HostNames names) {
  LEND_TRY(parts, split(text, local));
  rdma_addrinfo hints{};
  bool const is_numeric = names == HostNames::refused;
  hints.ai_flags = RAI_NOROUTE | (local ? RAI_PASSIVE : 0) | (is_numeric ? RAI_NUMERICHOST : 0);
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_qp_type = IBV_QPT_RC;
  rdma_addrinfo* raw = nullptr;
  LEND_TRYV(require_librdmacm());
  base::StandardReserved const reserved;
  errno = 0;
  int const result = rdma_getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &raw);
  if (result == -1 && errno != 0)
    return Error::from_errno("rdma_getaddrinfo for host \"" + parts.host + '"', errno);
  if (result != 0 && is_numeric)
    return Error{Errc::invalid_argument,
                 "host \"" + parts.host +
                     "\" is no IP address, and looking up a name may wait; look it up first, or "
                     "call cm_connect()"};
  if (result != 0)
    return Error{Errc::not_found, "no host \"" + parts.host + "\" is known to the resolver"};
  std::unique_ptr<rdma_addrinfo, void (*)(rdma_addrinfo*)> const found{raw, &rdma_freeaddrinfo};
  sockaddr const* const address = local ? raw->ai_src_addr : raw->ai_dst_addr;
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
    return Error{Errc::not_found, "host \"" + parts.host + "\" has no IP address"};
  return of(*address);
}

CmAddress CmAddress::of(sockaddr const& address) noexcept {
  CmAddress copy;
  std::memcpy(&copy.storage, &address,
              address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return copy;
}

std::string CmAddress::to_text() const {
  std::string text;
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof v4);
    std::uint32_t const host = be32toh(v4.sin_addr.s_addr);
    for (int shift = 24; shift >= 0; shift -= 8)
      text += std::to_string(host >> shift & 0xff) + (shift > 0 ? "." : ":");
    return text + std::to_string(be16toh(v4.sin_port));
  }
  if (storage.ss_family != AF_INET6) return "an unknown address";
  sockaddr_in6 v6{};
  std::memcpy(&v6, &storage, sizeof v6);
  for (int group = 0; group < 8; ++group) {
    auto const value = static_cast<unsigned>(v6.sin6_addr.s6_addr[2 * group] << 8 |
                                             v6.sin6_addr.s6_addr[2 * group + 1]);
    char digits[4];
    auto const end = std::to_chars(digits, digits + sizeof digits, value, 16).ptr;
    (text += group == 0 ? "[" : ":").append(digits, end);
  }
  return text + "]:" + std::to_string(be16toh(v6.sin6_port));
}

bool is_ipv6(std::string const& host) noexcept {
  return host.find(':') != host.npos;
}

std::string address_of(std::string const& host, std::uint16_t port) {
  return (is_ipv6(host) ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace lend::cm
