// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a transport over rdma_cm is one as any other, whichever end sends first. Method: the list
// of conformance.hpp over connections of one process; the accepting end sends first.
#include <lend/cm/transport.hpp>

#include <optional>
#include <string>
#include <utility>

#include "cm_ends.hpp"
#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"
#include "transport/pooled_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

// What the guide shows.
Result<AnyTransport> accept_one(CmListener& listener, ProtectionDomain const& domain,
                                TransportOptions const& options) {
  LEND_TRY(transport, lend::cm_accept_transport(listener, domain, options, lend::within(60s)));
  return std::move(transport);
}
Result<AnyTransport> connect_one(std::string const& address, ProtectionDomain const& domain,
                                 TransportOptions const& options) {
  LEND_TRY(transport, lend::cm_connect_transport(address, domain, options, lend::within(60s)));
  return std::move(transport);
}

enum class Receives : bool { own, in_pools };

/// The accepting end, and the one that connected.
Ends connect_both(TransportOptions const& options, Receives receives = Receives::own) {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  bool const has_pools = receives == Receives::in_pools;
  for (;;) {
    // The transports keep what they need of both.
    PoolOfOne of_acceptor{host.domain, options}, of_connector{host.domain, options};
    auto const& to_accept = has_pools ? of_acceptor.options : options;
    auto const& to_connect = has_pools ? of_connector.options : options;
    auto connecting =
        meanwhile([&] { return connect_one(listener.address(), host.domain, to_connect); });
    auto accepted = must(accept_one(listener, host.domain, to_accept));
    auto connected = connecting.get();
    // SoftiWARP resets some after it has accepted them: try_connect_by_cm().
    if (!connected && connected.error() == Errc::denied) continue;
    Ends both{std::move(accepted), must(std::move(connected))};
    auto& [acceptor, connector] = both;
    // The list counts the room of the accepting end, which has none before the other one's first
    // word has come. That one repeats it as it is polled.
    for (auto const deadline = patience(); !must(acceptor.try_draft(0, 1));) {
      must(connector.poll());
      must(acceptor.poll());
      REQUIRE_FALSE(deadline.has_passed());
    }
    return options.kind == TransportKind::read_ring || has_pools ? accompanied(std::move(both))
                                                                 : std::move(both);
  }
}

void check_list(TransportKind kind) {
  for (auto const& each : scenarios_of_transports()) DYNAMIC_SECTION(each.sentence) {
      each.run([kind](TransportOptions options) {
        options.kind = kind;
        return connect_both(options);
      });
    }
}

}  // namespace

TEST_CASE("SendReceive over rdma_cm does what the list of transports says", "[cm][list]") {
  check_list(TransportKind::send_receive);
}
TEST_CASE("transports in pools over rdma_cm do what the list of transports says", "[cm][list]") {
  for (auto const& each : scenarios_of_transports()) {
    if (!is_for_pools(each)) continue;
    DYNAMIC_SECTION(each.sentence) {
      each.run([](TransportOptions options) {
        options.kind = TransportKind::send_receive;
        return connect_both(options, Receives::in_pools);
      });
    }
  }
}
TEST_CASE("ReadRing over rdma_cm does what the list of transports says", "[cm][list]") {
  check_list(TransportKind::read_ring);
}
TEST_CASE("CreditRing over rdma_cm does what the list of transports says", "[cm][list]") {
  CmHost host;
  if (lacks(host.context, &DeviceCapabilities::immediates)) return;
  check_list(TransportKind::credit_ring);
}

TEST_CASE("the end that accepted sends at once", "[cm][list]") {
  auto const kind = GENERATE(TransportKind::send_receive, TransportKind::read_ring);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    auto [accepted, connected] = connect_both({.kind = kind});
    send(accepted, "at once");
    CHECK(receive(connected) == "at once");
  }
}

TEST_CASE("a peer of another kind is rejected with the reason, and the listener goes on", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  auto connecting = meanwhile([&] {
    return connect_one(listener.address(), host.domain, {.kind = TransportKind::read_ring});
  });
  auto const refused =
      error_of(accept_one(listener, host.domain, {.kind = TransportKind::send_receive}));
  CHECK(refused == Errc::incompatible_peer);
  auto const rejected = error_of(connecting.get());
  CHECK(rejected == Errc::denied);
  CHECK(rejected.message().find("read_ring") != std::string::npos);

  auto client = meanwhile([&] {
    return connect_one(listener.address(), host.domain, {.kind = TransportKind::read_ring});
  });
  auto accepted = must(accept_one(listener, host.domain, {.kind = TransportKind::read_ring}));
  must(client.get());
  std::array<std::byte, 1> const data{};
  CHECK(error_of(cm_connect_transport(listener.address(), host.domain, {}, within(bound),
                                      {.private_data = data})) == Errc::invalid_argument);
}
