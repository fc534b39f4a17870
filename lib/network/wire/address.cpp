// SPDX-License-Identifier: MIT OR Apache-2.0
// Parsing, resolving and showing of TCP addresses. Any thread.
#include <base/host_name.hpp>
#include <base/printable.hpp>
#include <base/standard_reserved.hpp>
#include <base/unique_fd.hpp>
#include <network/wire/address.hpp>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>

namespace lend::network {
namespace {

constexpr std::string_view local_scheme = "unix:";

/// With @ for the zero byte that abstract names begin with.
std::string local_text(SocketAddress const& address) {
  sockaddr_un local{};
  std::memcpy(&local, &address.storage, sizeof local);
  constexpr std::size_t before = offsetof(sockaddr_un, sun_path);
  if (address.length <= before) return "a process of this host";
  std::string name{local.sun_path, address.length - before};
  if (name.front() != '\0') return std::string{local_scheme} + name.c_str();
  return std::string{local_scheme} + "@" + name.substr(1);
}

Error port_is_missing(std::string_view text) {
  return {Errc::invalid_argument,
          "port 0 in \"" + std::string{text} + "\": name the port the peer listens on"};
}

Error malformed(std::string_view text, std::string_view reason) {
  return {Errc::invalid_argument, "the address \"" + base::shown(text) + "\" " +
                                      std::string{reason} + "; write host:port or [IPv6]:port"};
}

Error resolver_error(HostAndPort const& address, int code, int errno_value) {
  auto const about = "getaddrinfo of \"" + address.host + "\"";
  if (code == EAI_SYSTEM) return Error::from_errno(about, errno_value);
  // Without a descriptor the resolver can neither read a file nor query a server.
  base::UniqueFd const spare{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!spare && (errno == EMFILE || errno == ENFILE)) return Error::from_errno(about, errno);
  auto const message = about + ": " + ::gai_strerror(code);
  if (code == EAI_MEMORY) return {Errc::exhausted, message};
  return {Errc::not_found, message + "; name a host this machine knows"};
}

}  // namespace

Result<HostAndPort> parse_address(std::string_view text) {
  bool const in_brackets = text.starts_with('[');
  auto const bracket = text.find(']');
  if (in_brackets && bracket == std::string_view::npos)
    return malformed(text, "has a bracket that is not closed");
  auto const colon = in_brackets ? bracket + 1 : text.rfind(':');
  if (colon >= text.size()) return malformed(text, "has no port");
  if (text[colon] != ':') return malformed(text, "has no colon between bracket and port");
  auto host = text.substr(0, colon);
  auto const digits = text.substr(colon + 1);

  if (in_brackets) {
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos)
      return malformed(text, "has brackets around something that is not IPv6");
  } else if (host.find(':') != std::string_view::npos) {
    return malformed(text, "has more than one colon without brackets");
  }
  if (host.empty()) return malformed(text, "has no host");
  // The resolver takes it for no host, which without AI_PASSIVE is the loopback interface alone.
  if (host == "*")
    return malformed(text, "has no host but *; a listener on all interfaces is at 0.0.0.0 or [::]");
  if (host.size() > base::host_length_max) return malformed(text, "has too long a host");
  if (!base::has_host_characters(host)) return malformed(text, "has a character no host name has");

  if (digits.empty()) return malformed(text, "has no port");
  std::uint16_t port = 0;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size())
    return malformed(text, "has a port that is not a number from 0 to 65535");
  return HostAndPort{std::string{host}, port};
}

bool is_local_address(std::string_view text) noexcept {
  return text.starts_with(local_scheme);
}

Result<SocketAddress> parse_local_address(std::string_view text) {
  auto const name = text.substr(local_scheme.size());
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  auto const refused = [&](std::string_view reason) {
    return Error{Errc::invalid_argument,
                 "the address \"" + base::shown(text) + "\" " + std::string{reason} +
                     "; write unix:PATH, or unix:@NAME for a name without a file"};
  };
  if (name.empty() || name == "@") return refused("has no path");
  if (name.find('\0') != std::string_view::npos) return refused("has a zero byte");
  if (name.size() >= sizeof local.sun_path) return refused("has too long a path");
  bool const is_abstract = name.front() == '@';
  std::copy(name.begin(), name.end(), std::begin(local.sun_path));
  if (is_abstract) local.sun_path[0] = '\0';
  SocketAddress address;
  std::memcpy(&address.storage, &local, sizeof local);
  // The name of an abstract one is as long as the length says; a path ends at its zero byte.
  auto const length = offsetof(sockaddr_un, sun_path) + name.size() + (is_abstract ? 0 : 1);
  address.length = static_cast<socklen_t>(length);
  return address;
}

bool SocketAddress::is_loopback() const noexcept {
  sockaddr_in v4{};
  std::memcpy(&v4, &storage, sizeof v4);
  if (storage.ss_family == AF_INET) return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &storage, sizeof v6);
  return storage.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool SocketAddress::is_any() const noexcept {
  sockaddr_in6 v6{};
  std::memcpy(&v6, &storage, sizeof v6);
  return storage.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

// Both families have the port behind the family.
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

std::uint16_t SocketAddress::port() const noexcept {
  sockaddr_in either{};
  std::memcpy(&either, &storage, sizeof either);
  return ntohs(either.sin_port);
}

void SocketAddress::set_port(std::uint16_t port) noexcept {
  auto const number = htons(port);
  std::memcpy(reinterpret_cast<char*>(&storage) + offsetof(sockaddr_in, sin_port), &number,
              sizeof number);
}

std::string SocketAddress::to_text() const {
  if (is_local()) return local_text(*this);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(native(), length, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unnamed address";
  std::string text{host.data()};
  if (storage.ss_family == AF_INET6) text = "[" + text + "]";
  return text + ":" + port.data();
}

Result<std::vector<SocketAddress>> resolve(HostAndPort const& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  auto const port = std::to_string(address.port);
  base::StandardReserved const reserved;
  int const code = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &first);
  if (code != 0) return resolver_error(address, code, errno);
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> const list{first, &::freeaddrinfo};

  std::vector<SocketAddress> found;
  for (addrinfo const* at = first; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    if (at->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress next;
    std::memcpy(&next.storage, at->ai_addr, at->ai_addrlen);
    next.length = at->ai_addrlen;
    found.push_back(next);
  }
  if (found.empty())
    return Error{Errc::not_found, "\"" + address.host + "\" has no IPv4 or IPv6 address"};
  return found;
}

Result<std::string> name_in(std::string_view text) {
  if (is_local_address(text)) return std::string{};
  LEND_TRY(parsed, parse_address(text));
  if (parsed.port == 0) return port_is_missing(text);
  auto const host = parsed.host.substr(0, parsed.host.find('%'));
  in6_addr number{};
  bool const is_number = ::inet_pton(AF_INET, host.c_str(), &number) == 1 ||
                         ::inet_pton(AF_INET6, host.c_str(), &number) == 1;
  return is_number ? std::string{} : std::move(parsed).host;
}

Result<SocketAddress> numeric_address_at(std::string_view text) {
  LEND_TRY(name, name_in(text));
  if (!name.empty())
    return malformed(text,
                     "has a name, which may take any time to look up, where an event loop "
                     "needs an IP address");
  LEND_TRY(candidates, candidates_at(text, true));
  return candidates.front();
}

Result<std::vector<SocketAddress>> candidates_at(std::string_view text, bool connects) {
  if (is_local_address(text)) {
    LEND_TRY(local, parse_local_address(text));
    return std::vector{local};
  }
  LEND_TRY(parsed, parse_address(text));
  if (connects && parsed.port == 0) return port_is_missing(text);
  return resolve(parsed);
}

std::vector<SocketAddress> as_others_come(std::string_view text, std::vector<SocketAddress> found) {
  auto const parsed = parse_address(text);
  if (!parsed || !std::ranges::all_of(found, &SocketAddress::is_loopback)) return found;
  auto host = parsed.value().host;
  std::ranges::transform(host, host.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::array<std::byte, sizeof(in6_addr)> number;
  bool const is_number = ::inet_pton(AF_INET, host.c_str(), number.data()) == 1 ||
                         ::inet_pton(AF_INET6, host.c_str(), number.data()) == 1;
  // Names of hosts files for the loopback device: localhost4, ip6-localhost, ip6-loopback, ...
  if (is_number || host.find("localhost") != host.npos || host.find("loopback") != host.npos)
    return found;
  SocketAddress any;
  any.length = sizeof(sockaddr_in6);
  any.storage.ss_family = AF_INET6;
  any.set_port(parsed.value().port);
  return {any};
}

std::vector<OwnAddress> addresses_in(ifaddrs const* first) {
  std::vector<OwnAddress> found;
  for (ifaddrs const* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    bool const is_ipv4 = at->ifa_addr->sa_family == AF_INET;
    if (!is_ipv4 && at->ifa_addr->sa_family != AF_INET6) continue;
    if (!is_ipv4) {
      sockaddr_in6 v6{};
      std::memcpy(&v6, at->ifa_addr, sizeof v6);
      if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) continue;
    }
    std::array<char, NI_MAXHOST> text{};
    auto const length =
        static_cast<socklen_t>(is_ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (::getnameinfo(at->ifa_addr, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
        0)
      found.push_back({at->ifa_name, is_ipv4, text.data()});
  }
  // That of std::ranges does not compile with clang 14 and libstdc++ 12.
  std::stable_partition(found.begin(), found.end(), std::mem_fn(&OwnAddress::is_ipv4));
  return found;
}

Result<std::vector<OwnAddress>> own_addresses() {
  ifaddrs* first = nullptr;
  base::StandardReserved const reserved;
  if (::getifaddrs(&first) != 0) return Error::from_errno("getifaddrs", errno);
  std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const list{first, &::freeifaddrs};
  return addresses_in(first);
}

Result<std::vector<OwnAddress>> own_addresses_of_iwarp(Gid const& gid) {
  std::array<char, 18> hardware{};
  std::snprintf(hardware.data(), hardware.size(), "%02x:%02x:%02x:%02x:%02x:%02x", gid[0], gid[1],
                gid[2], gid[3], gid[4], gid[5]);
  LEND_TRY(own, own_addresses());
  base::StandardReserved const reserved;
  std::erase_if(own, [&](OwnAddress const& one) {
    std::ifstream file{"/sys/class/net/" + one.interface + "/address"};
    std::string address;
    file >> address;
    return address != hardware.data();
  });
  return own;
}

}  // namespace lend::network
