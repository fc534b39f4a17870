// SPDX-License-Identifier: MIT OR Apache-2.0
// Reaching a listener that is late, absent or taken. Loopback only.
#include <network/wire/socket.hpp>

#include <signal.h>

#include <atomic>
#include <vector>

#include "network/raw_peers.hpp"
#include "support/few_descriptors.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("a listener gets a port of the system's choice, and a taken one is refused",
          "[network]") {
  auto const first = loopback_listener();
  CHECK(first.address.starts_with("127.0.0.1:"));
  CHECK_FALSE(first.address.ends_with(":0"));

  auto const second = error_of(
      network::open_listening(must(network::resolve(must(network::parse_address(first.address))))));

  CHECK_THAT(second.message(), Catch::Contains(first.address));
  CHECK(second.os_error() == EADDRINUSE);
}

TEST_CASE("an address of another host cannot be listened on", "[network]") {
  // TEST-NET-1, RFC 5737: no host has it.
  auto const error = error_of(network::open_listening(must(network::resolve({"192.0.2.1", 0}))));

  CHECK(error == Errc::not_found);
  CHECK_THAT(error.message(), Catch::Contains("192.0.2.1:0"));
}

TEST_CASE("reaching nobody ends at the deadline with the refusal", "[network]") {
  auto const before = open_descriptors();
  auto const address = loopback_listener().address;  // closed again: nobody listens there

  auto const error = error_of(network::connect_with_retry(
      address, always(must(network::resolve(must(network::parse_address(address))))),
      within(30ms)));

  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains(address) && Catch::Contains("refused"));
  CHECK(open_descriptors() == before);
}

TEST_CASE("reaching none of several addresses ends with the refusal of each", "[network]") {
  // A port of its own for each: nobody listens there.
  auto const first = loopback_listener().address;
  auto candidates = must(network::resolve(must(network::parse_address(first))));
  auto const second = loopback_listener("127.0.0.2:0").address;
  candidates.push_back(must(network::resolve(must(network::parse_address(second)))).front());

  auto const error =
      error_of(network::connect_with_retry("nowhere", always(candidates), within(30ms)));

  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains("no peer listened at nowhere"));
  for (auto const& address : {first, second})
    CHECK_THAT(error.message(), Catch::Contains(address + ": Connection refused"));
}

TEST_CASE("an address that can never be reached costs its name no other", "[network]") {
  auto const address = loopback_listener().address;
  auto candidates = must(network::resolve(must(network::parse_address(address))));
  candidates.insert(candidates.begin(), candidates.front());
  candidates.front().length = 4;  // EINVAL
  Result<network::Socket> reached = network::Socket{};
  std::thread reaching{
      [&] { reached = network::connect_with_retry("here", always(candidates), within(patience)); }};
  std::this_thread::sleep_for(20ms);

  auto const listening = loopback_listener(address);
  reaching.join();

  CHECK(must(std::move(reached)).address == address);
}

TEST_CASE("where no address can ever be reached, that is said at once", "[network]") {
  auto candidates = must(network::resolve({"127.0.0.1", 1}));
  auto& address = candidates.front();
  bool const is_family_known = GENERATE(true, false);
  if (is_family_known)
    address.length = 4;
  else
    address.storage.ss_family = AF_MAX;  // as IPv6 is on a host without it

  auto const error =
      error_of(network::connect_with_retry("here", always(candidates), Deadline::never()));

  CHECK(error == (is_family_known ? Errc::invalid_argument : Errc::unsupported));
  CHECK(error.os_error() == (is_family_known ? EINVAL : EAFNOSUPPORT));
}

TEST_CASE("an address that swallows packets leaves time for those after it", "[network]") {
  auto candidates = must(network::resolve({"127.0.0.1", 0}));
  auto& full = candidates.front();
  base::UniqueFd const deaf{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  REQUIRE(::bind(deaf.get(), full.native(), full.length) == 0);
  REQUIRE(::listen(deaf.get(), 0) == 0);
  REQUIRE(::getsockname(deaf.get(), full.native(), &full.length) == 0);
  // Fills the queue of those who wait to be accepted. Source: listen(2).
  auto const only_one =
      must(network::connect_with_retry("deaf", always(candidates), within(patience)));
  auto const listening = loopback_listener();
  candidates.push_back(
      must(network::resolve(must(network::parse_address(listening.address)))).front());

  auto const reached =
      must(network::connect_with_retry("one of them", always(candidates), within(2s)));

  CHECK(reached.address == listening.address);
}

TEST_CASE("listening, reaching and accepting without a descriptor tell which limit that is",
          "[network]") {
  auto const listening = loopback_listener();
  auto const candidates = must(network::resolve(must(network::parse_address(listening.address))));
  auto const reached = dial(listening.address);
  pollfd waiting{listening.fd.get(), POLLIN, 0};
  REQUIRE(must(network::wait_for({&waiting, 1}, within(patience))));
  std::string limit;
  std::vector<Error> errors;
  {
    FewDescriptors const none;
    limit = FewDescriptors::words();
    errors.push_back(error_of(network::open_listening(must(network::resolve({"127.0.0.1", 0})))));
    errors.push_back(
        error_of(network::connect_with_retry("here", always(candidates), within(patience))));
    errors.push_back(error_of(network::take_connection(listening.fd.get())));
  }

  for (auto const& error : errors) {
    CHECK(error == Errc::exhausted);
    CHECK_THAT(error.message(), Catch::Contains(limit) && Catch::Contains("ulimit -n"));
  }
}

TEST_CASE("a listener that starts later is reached", "[network]") {
  auto const address = loopback_listener().address;
  network::Socket reached;
  std::thread reaching{[&] { reached = dial(address); }};
  std::this_thread::sleep_for(20ms);

  auto const listening = loopback_listener(address);
  reaching.join();

  CHECK(reached.fd);
  CHECK(reached.address == address);
}

TEST_CASE("a socket that met itself is told from one that met a listener", "[network]") {
  auto const listening = loopback_listener();
  auto const honest = dial(listening.address);
  network::SocketAddress here = must(network::resolve({"127.0.0.1", 0})).front();
  base::UniqueFd const lonely{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  REQUIRE(::bind(lonely.get(), here.native(), here.length) == 0);
  REQUIRE(::getsockname(lonely.get(), here.native(), &here.length) == 0);
  REQUIRE(::connect(lonely.get(), here.native(), here.length) == 0);

  CHECK(network::is_connected_to_itself(lonely.get()));
  CHECK_FALSE(network::is_connected_to_itself(honest.fd.get()));
}

TEST_CASE("waiting goes on after a signal, up to the deadline", "[network]") {
  auto const [ours, theirs] = socket_pair();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction former {};
  REQUIRE(::sigaction(SIGUSR1, &action, &former) == 0);
  auto const waiter = ::pthread_self();
  std::atomic<bool> over{false};
  std::thread pestering{[&] {
    while (!over.load()) {
      ::pthread_kill(waiter, SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
  }};
  auto const deadline = within(50ms);

  pollfd waiting{ours.fd.get(), POLLIN, 0};
  auto const ready = must(network::wait_for({&waiting, 1}, deadline));

  over.store(true);
  pestering.join();
  ::sigaction(SIGUSR1, &former, nullptr);
  CHECK_FALSE(ready);
  CHECK(deadline.has_passed());
}
