// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses in text, and what the resolver makes of them. Loopback only.
#include <network/wire/address.hpp>

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <random>

#include "support/catch.hpp"
#include "support/few_descriptors.hpp"
#include "support/seed.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("an address is a host and a port", "[network]") {
  CHECK(must(network::parse_address("127.0.0.1:80")) == network::HostAndPort{"127.0.0.1", 80});
  CHECK(must(network::parse_address("node-17.cluster:0")) ==
        network::HostAndPort{"node-17.cluster", 0});
  CHECK(must(network::parse_address("localhost:65535")) ==
        network::HostAndPort{"localhost", 65535});
  CHECK(must(network::parse_address("[::1]:7")) == network::HostAndPort{"::1", 7});
  CHECK(must(network::parse_address("[fe80::1%lo]:7")) == network::HostAndPort{"fe80::1%lo", 7});
}

TEST_CASE("a host's own addresses are told with their interfaces, IPv4 first", "[network]") {
  auto const own = must(network::own_addresses());
  CHECK(std::ranges::count(own, network::OwnAddress{"lo", true, "127.0.0.1"}) == 1);
  CHECK(std::ranges::is_partitioned(own, &network::OwnAddress::is_ipv4));
  CHECK(std::ranges::none_of(own, [](auto const& one) { return one.text.starts_with("fe80"); }));
}

TEST_CASE("interfaces without IP and link-local addresses are left out, IPv6 comes last",
          "[network]") {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  sockaddr_in6 local = six;
  local.sin6_addr.s6_addr[0] = 0xfe;
  local.sin6_addr.s6_addr[1] = 0x80;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr packet{};
  packet.sa_family = AF_PACKET;
  char name[] = "lo";
  std::array<ifaddrs, 5> list{};
  sockaddr* const addresses[] = {&packet, reinterpret_cast<sockaddr*>(&local),
                                 reinterpret_cast<sockaddr*>(&six), nullptr,
                                 reinterpret_cast<sockaddr*>(&four)};
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].ifa_next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    list[i].ifa_name = name;
    list[i].ifa_addr = addresses[i];
  }
  CHECK(network::addresses_in(list.data()) ==
        std::vector<network::OwnAddress>{{"lo", true, "127.0.0.1"}, {"lo", false, "::1"}});
}

TEST_CASE("what is no address is refused with a reason", "[network]") {
  static std::string const too_long(300, 'a');  // a variable: GCC 12 takes a temporary for overrun
  auto const [text, reason] = GENERATE(table<std::string, std::string>({
      {"", "has no port"},
      {"localhost", "has no port"},
      {"localhost:", "has no port"},
      {":80", "has no host"},
      {"::1:80", "without brackets"},
      {"[::1:80", "bracket"},
      {"[]:80", "not IPv6"},
      {"[localhost]:80", "not IPv6"},
      {"[::1]", "has no port"},
      {"[::1]:", "has no port"},
      {"[::1]80", "no colon between"},
      {"[::1]:80:90", "port"},
      {"*:80", "0.0.0.0 or [::]"},
      {"localhost:65536", "port"},
      {"localhost:-1", "port"},
      {"localhost:+1", "port"},
      {"localhost: 80", "port"},
      {"localhost:80 ", "port"},
      {"localhost:http", "port"},
      {"local host:80", "character"},
      {std::string{"local\0host:80", 13}, "character"},
      {"local\nhost:80", "character"},
      {"http//x:80", "character"},
      {too_long + ":80", "too long"},
  }));
  CAPTURE(text);

  auto const error = error_of(network::parse_address(text));

  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains(reason));
  CHECK(error.message().find('\n') == std::string::npos);
}

TEST_CASE("every text is an address or an error", "[network]") {
  for (auto const seed : seeds(20)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    std::string_view const letters = "[]:.%0123456789abz \n";
    for (int round = 0; round < 2000; ++round) {
      std::string text;
      for (auto left = random() % 14; left > 0; --left) text += letters[random() % letters.size()];
      CAPTURE(text);
      auto const parsed = network::parse_address(text);
      if (!parsed) {
        CHECK(parsed.error() == Errc::invalid_argument);
        continue;
      }
      bool const six = parsed.value().host.find(':') != std::string::npos;
      auto const host = six ? "[" + parsed.value().host + "]" : parsed.value().host;
      CHECK(must(network::parse_address(host + ":" + std::to_string(parsed.value().port))) ==
            parsed.value());
    }
  }
}

TEST_CASE("numbers resolve to themselves", "[network]") {
  CHECK(must(network::resolve({"127.0.0.1", 80})).front().to_text() == "127.0.0.1:80");
  CHECK(must(network::resolve({"::1", 80})).front().to_text() == "[::1]:80");
}

TEST_CASE("a host that cannot be is not found, and the error names it", "[network]") {
  // A label longer than 63 octets never leaves this machine (RFC 1035 §2.3.4).
  auto const host = std::string(70, 'x');

  auto const error = error_of(network::resolve({host, 80}));

  CHECK(error == Errc::not_found);
  CHECK_THAT(error.message(), Catch::Contains(host));
}

TEST_CASE("a name that cannot be looked up for want of descriptors tells which limit that is",
          "[network]") {
  FewDescriptors const none;

  auto const error = error_of(network::resolve({"localhost", 80}));

  CHECK(error == Errc::exhausted);
  CHECK_THAT(error.message(), Catch::Contains(FewDescriptors::words()));
}
