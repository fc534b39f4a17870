// SPDX-License-Identifier: MIT OR Apache-2.0
// Names and ports that other programs do not take. Any thread.
#include <base/host_name.hpp>
#include <base/printable.hpp>
#include <launch/meeting_place.hpp>
#include <network/wire/address.hpp>
#include <network/wire/secret.hpp>

#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace lend::launch {

namespace {

struct Reserved {
  base::UniqueFd fd;
  std::uint16_t port = 0;
};

Result<Reserved> reserve_port_of(sa_family_t family) {
  base::UniqueFd fd{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd) return Error::from_errno("socket", errno);
  int const yes = 1, no = 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (family == AF_INET6) (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  network::SocketAddress any;
  any.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  any.storage.ss_family = family;
  if (::bind(fd.get(), any.native(), any.length) != 0)
    return Error::from_errno("bind to any port", errno);
  if (::getsockname(fd.get(), any.native(), &any.length) != 0)
    return Error::from_errno("getsockname", errno);
  return Reserved{std::move(fd), any.port()};
}

/// A socket of both families that does not listen, so that others with SO_REUSEADDR may bind to its
/// port.
/// Source: socket(7), SO_REUSEADDR.
Result<Reserved> reserve_port() {
  auto reserved = reserve_port_of(AF_INET6);
  // A kernel without IPv6 has no such sockets, or no such address.
  bool const has_no_ipv6 = !reserved && (reserved.error().os_error() == EAFNOSUPPORT ||
                                         reserved.error().os_error() == EADDRNOTAVAIL);
  return has_no_ipv6 ? reserve_port_of(AF_INET) : std::move(reserved);
}

Result<std::string> own_host_name() {
  std::array<char, base::host_length_max + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    return Error::from_errno("gethostname", errno);
  std::string host{name.data()};
  if (host.empty() || !base::has_host_characters(host) || host.find(':') != std::string::npos)
    return Error{Errc::unsupported, "this host is called \"" + base::shown(host) +
                                        "\", by which no other can reach it; set LEND_DESK"};
  return host;
}

/// 32 random bytes in hexadecimal digits.
/// Errors:  unsupported  lend was built without libsodium.
Result<std::string> new_secret() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Error::from_errno("getrandom", errno);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string secret;
  for (auto const byte : bytes) {
    secret += digits[byte / 16u];
    secret += digits[byte % 16u];
  }
  auto const taken = network::Secret::of(secret);
  if (!taken && taken.error() == Errc::unsupported)
    return Error{Errc::unsupported,
                 "ranks on several hosts meet at a port, where a secret keeps others out, and this "
                 "lend was built without libsodium: build it with, or set LEND_DESK"};
  if (!taken) return taken.error();
  return secret;
}

}  // namespace

std::string MeetingPlace::to_value() const {
  return secret.empty() ? desk : desk + secret_follows + secret;
}

MeetingPlace MeetingPlace::of_value(std::string_view value) {
  auto const end = value.find(secret_follows);
  if (end == std::string_view::npos) return {std::string{value}, {}};
  return {std::string{value.substr(0, end)}, std::string{value.substr(end + 1)}};
}

Result<OwnPlace> choose_place(std::string const& job, bool is_one_host, bool have_secret) {
  if (is_one_host) {
    // A name of 107 bytes fits. Source: unix(7).
    auto const name = "unix:@lend-" + std::to_string(::geteuid()) + "-" + name_of_job(job, 80);
    return OwnPlace{.place = {name, {}}, .listens_at = name};
  }
  LEND_TRY(host, own_host_name());
  LEND_TRY(reserved, reserve_port());
  auto const port = ":" + std::to_string(reserved.port);
  OwnPlace own{{host + port, {}}, "[::]" + port, std::move(reserved.fd)};
  if (have_secret) return own;
  LEND_TRY(secret, new_secret());
  own.place.secret = std::move(secret);
  return own;
}

std::string name_of_job(std::string job, std::size_t most) {
  std::ranges::replace_if(
      job, [](char c) { return c <= ' ' || c > '~' || c == ',' || c == '/'; }, '_');
  return job.substr(job.size() - std::min(job.size(), most));
}

}  // namespace lend::launch
