// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a side finds the other whatever its name means at either of them, now or later: names that
// are not known yet, that change, that mean the loopback device, that have addresses of both
// families. Method: resolvers that are made up; sockets on the loopback device.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <network/wire/address.hpp>
#include <network/wire/socket.hpp>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "launch/ranks_at_desk.hpp"
#include "network/raw_peers.hpp"

using namespace lend;
using namespace lend::test;

namespace {

using Addresses = std::vector<network::SocketAddress>;

Addresses numbers(std::vector<network::HostAndPort> const& hosts) {
  Addresses all;
  for (auto const& one : hosts) all.push_back(must(network::resolve(one)).front());
  return all;
}

/// Where rank 0 listens whose host has `found` for the name in `text`.
std::string places(std::string_view text, Addresses found) {
  std::string all;
  for (auto const& one : network::as_others_come(text, std::move(found)))
    (all += all.empty() ? "" : " ") += one.to_text();
  return all;
}

/// Another name than any resolver asks for: a label of more than 63 octets (RFC 1035 §2.3.4).
std::string unknown_name() {
  std::string name(70, 'x');
  name += ":4000";
  return name;
}

bool has_ipv6() {
  return network::open_listening(numbers({{"::1", 0}})).has_value();
}

/// Takes sockets of IPv6 from this thread, as a kernel without it does. False: it may not.
bool lose_ipv6() {
  constexpr auto family = static_cast<std::uint32_t>(offsetof(seccomp_data, args));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, family),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{std::size(filter), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST_CASE("a name that is not known yet is asked for again, and its listener reached",
          "[network]") {
  auto const listening = loopback_listener();
  int asked = 0;
  auto const look_up = [&]() -> Result<Addresses> {
    if (++asked < 3) return Error{Errc::not_found, "not yet"};
    return network::candidates_at(listening.address, true);
  };

  CHECK(must(network::connect_with_retry("late", look_up, within(patience))).address ==
        listening.address);
  CHECK(asked == 3);
  asked = 0;
  CHECK(must(network::find_candidates("late", look_up, within(patience))).size() == 1);
  CHECK(asked == 3);
}

TEST_CASE("a name that has another address later is reached there", "[network]") {
  auto const before = loopback_listener().address;  // closed again: nobody listens there
  auto const after = loopback_listener();
  int asked = 0;
  auto const look_up = [&] {
    return network::candidates_at(++asked == 1 ? before : after.address, true);
  };

  CHECK(must(network::connect_with_retry("moved", look_up, within(patience))).address ==
        after.address);
}

TEST_CASE("a resolver is asked at a bounded pace, and the deadline's error has its words",
          "[network]") {
  int asked = 0;
  auto const look_up = [&]() -> Result<Addresses> {
    ++asked;
    return Error{Errc::not_found, "no such name as far as is known"};
  };
  // At 0, 0.1 and 0.3 s, and once more where the wait ends a little late.
  auto const unreached = error_of(network::connect_with_retry("never", look_up, within(500ms)));
  CHECK(asked >= 2);
  CHECK(asked <= 4);
  CHECK(unreached == Errc::timed_out);
  CHECK_THAT(unreached.message(),
             Catch::Contains("never") && Catch::Contains("no such name as far as is known"));
  asked = 0;
  auto const unfound = error_of(network::find_candidates("never", look_up, within(500ms)));
  CHECK(asked >= 2);
  CHECK(asked <= 4);
  CHECK(unfound == Errc::timed_out);
  CHECK_THAT(unfound.message(), Catch::Contains("no such name as far as is known"));
}

TEST_CASE("a listener asks once where there is no time, and other errors end both sides at once",
          "[network]") {
  int asked = 0;
  auto code = Errc::not_found;
  auto const look_up = [&]() -> Result<Addresses> { return ++asked, code; };
  CHECK(error_of(network::find_candidates("here", look_up, within(0ms))) == Errc::not_found);
  CHECK(asked == 1);
  code = Errc::exhausted;
  CHECK(error_of(network::find_candidates("here", look_up, Deadline::never())) == code);
  CHECK(error_of(network::connect_with_retry("here", look_up, Deadline::never())) == code);
  CHECK(asked == 3);
}

TEST_CASE("rank 0 and the others wait for a name that the resolver does not know", "[network]") {
  for (std::uint32_t const rank : {0u, 1u}) {
    Seat const seat{.rank = rank, .size = 2, .desk = unknown_name()};
    auto const error = error_of(sit(seat, within(50ms)));
    CHECK(error == Errc::timed_out);
    CHECK_THAT(error.message(), Catch::Contains("getaddrinfo of \"xxx"));
  }
  CHECK(error_of(Desk::open(unknown_name())) == Errc::not_found);
}

TEST_CASE("rank 0 listens at all addresses of its name, and at every one if they are loopback's",
          "[network]") {
  auto const debian = numbers({{"127.0.1.1", 4000}});
  auto const both = numbers({{"::1", 4000}, {"127.0.0.1", 4000}});
  CHECK(places("node0:4000", debian) == "[::]:4000");
  CHECK(places("node0.site.org:4000", both) == "[::]:4000");
  auto const known = numbers({{"127.0.1.1", 4000}, {"192.0.2.7", 4000}, {"2001:db8::7", 4000}});
  CHECK(places("node0:4000", known) == "127.0.1.1:4000 192.0.2.7:4000 [2001:db8::7]:4000");
  // What means the loopback device stays there.
  CHECK(places("localhost:4000", both) == "[::1]:4000 127.0.0.1:4000");
  CHECK(places("ip6-loopback:4000", numbers({{"::1", 4000}})) == "[::1]:4000");
  CHECK(places("127.0.1.1:4000", debian) == "127.0.1.1:4000");
  CHECK(places("[::1]:4000", numbers({{"::1", 4000}})) == "[::1]:4000");
  CHECK(places("unix:@here", {must(network::parse_local_address("unix:@here"))}) == "unix:@here");
}

TEST_CASE("a listener at several addresses has one port, and is at those of this host",
          "[network]") {
  auto const all = must(network::open_all_listening(
      numbers({{"192.0.2.1", 0}, {"127.0.0.1", 0}, {"127.0.0.1", 0}, {"127.0.0.2", 0}})));
  REQUIRE(all.size() == 2);
  CHECK(all[0].address.starts_with("127.0.0.1:"));
  CHECK(all[1].address == "127.0.0.2" + all[0].address.substr(9));

  auto taken = must(network::candidates_at(all[1].address, false));
  taken.insert(taken.begin(), numbers({{"127.0.0.3", taken.front().port()}}).front());
  CHECK(error_of(network::open_all_listening(taken)).os_error() == EADDRINUSE);
  CHECK(error_of(network::open_all_listening(numbers({{"192.0.2.1", 0}, {"203.0.113.7", 0}}))) ==
        Errc::not_found);
}

TEST_CASE("a desk serves ranks at each address of its name, and says at a time-out where that is",
          "[network]") {
  auto desk = must(launch::DeskState::open("localhost:0", "", {}, within(0ms)));
  auto const port = desk->address().substr(desk->address().rfind(':'));
  must(desk->begin(2, within(300ms)));
  for (auto const& one : must(network::candidates_at("localhost" + port, true))) {
    auto const reached = dial(one.to_text());
    CHECK_THAT(desk->places(), Catch::Contains(one.to_text()));
  }
  Result<bool> met = false;
  while (met && !met.value()) met = desk->poll();
  CHECK_THAT(error_of(std::move(met)).message(),
             Catch::Contains("not all ranks met at " + desk->places()));

  Seat const alone{.rank = 0, .size = 2, .desk = "localhost" + port};
  desk.reset();
  auto const late = error_of(meet(alone, within(50ms)));
  CHECK(late == Errc::timed_out);
  CHECK_THAT(late.message(),
             Catch::Contains("where it listened at") && Catch::Contains("1" + port));
}

TEST_CASE("a listener at [::] is reached by both families", "[network]") {
  auto const listening = must(network::open_listening(numbers({{"::", 0}})));
  auto const port = listening.address.substr(listening.address.rfind(':'));
  CHECK(dial("127.0.0.1" + port).fd);
  if (has_ipv6())
    CHECK(dial("[::1]" + port).fd);
  else
    WARN("skipped: this host has no IPv6");
}

TEST_CASE("a listener at [::] is one for IPv4 where the kernel has no IPv6", "[network]") {
  std::string address;
  bool is_lost = false;
  std::jthread{[&] {
    is_lost = lose_ipv6();
    if (is_lost) address = must(network::open_listening(numbers({{"::", 0}}))).address;
  }}.join();
  if (!is_lost) {
    WARN("skipped: no seccomp filter here");
    return;
  }
  CHECK(address.starts_with("0.0.0.0:"));
  CHECK_FALSE(address.ends_with(":0"));
}
