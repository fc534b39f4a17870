// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: connections made by descriptor are those of the blocking calls, and end in time.
// Method: a fake librdmacm and a fake device, which count.
#include <lend/cm/connector.hpp>
#include <verbs/queue/adoption.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <random>
#include <type_traits>

#include "cm/fake_host.hpp"
#include "support/canceller.hpp"
#include "support/few_descriptors.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;

static_assert(!std::is_copy_constructible_v<CmConnecting>);

TEST_CASE("one thread makes many connections, in whatever order the events come", "[cm]") {
  for (auto const seed : seeds(20)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    Host const host{seed % 2 == 0 ? IBV_TRANSPORT_IB : IBV_TRANSPORT_IWARP};
    cm_calls().holds_events = true;
    Stage stage{host};
    constexpr int count = 40;
    std::vector<Making*> connectors;
    for (int i = 0; i < count; ++i)
      connectors.push_back(&stage.connect({.private_data = bytes_of(std::to_string(i))}));
    while (stage.loop.under_way() > 0) {
      REQUIRE(cm_calls().held() > 0);
      cm_calls().deliver(random() % cm_calls().held());
      if (random() % 4 == 0 || cm_calls().held() == 0) stage.run();
    }

    CHECK(stage.loop.under_way() == 0);
    REQUIRE(stage.loop.makings.size() == 2 * count);
    for (auto const& one : stage.loop.makings) REQUIRE(one.is_connected());
    for (int i = 0; i < count; ++i) {
      auto const& peer = connectors[std::size_t(i)]->connection->peer;
      CHECK(peer.private_data == bytes_of(std::to_string(i)));  // the listener sends it back
      CHECK(peer.address == stage.listener.address());
      CHECK(peer.send_depth == 128);
    }
  }
}

TEST_CASE("a connection being made is over with its first answer", "[cm]") {
  Host const host;
  Stage stage{host};
  auto connecting =
      must(CmConnecting::begin(stage.listener.address(), host.prepare(), within(20s)));
  int const watched = connecting.descriptor();
  CHECK(is_readable(watched));
  while (is_readable(connecting.descriptor())) CHECK_FALSE(must(connecting.advance()).has_value());
  CHECK_FALSE(must(connecting.advance()).has_value());  // nothing is due
  stage.run();

  CHECK(must(connecting.advance()).has_value());
  CHECK(connecting.descriptor() == -1);
  CHECK(error_of(connecting.advance()) == Errc::stale_handle);
}

TEST_CASE("the blocking calls meet those that do not wait", "[cm]") {
  Host const host;
  auto listener = listener_here();
  bool const connects_blocking = GENERATE(true, false);
  EventLoop loop;
  if (connects_blocking) {
    loop.serve(listener, [&](CmRequest request) {
      return std::move(request).begin_accept(host.prepare(), within(20s));
    });
    // The fake provider has one thread at a time.
    auto queue_pair = host.prepare();
    auto connecting = std::async(std::launch::async, [&] {
      return cm_connect(listener.address(), std::move(queue_pair), within(20s));
    });
    while (loop.makings.empty()) loop.turn(100);
    must(connecting.get());
    while (loop.turn(0)) continue;
    CHECK(loop.makings.front().is_connected());
  } else {
    auto& one = loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
    while (loop.turn(0)) continue;
    auto request = must(listener.next(within(0s)));
    auto queue_pair = host.prepare();
    auto accepting = std::async(std::launch::async, [&] {
      return std::move(request).accept(std::move(queue_pair), within(20s));
    });
    while (!one.is_over()) loop.turn(100);
    CHECK(one.is_connected());
    must(accepting.get());
  }
}

TEST_CASE("on iWARP a connection takes no more READs than the kernel agreed on with the peer",
          "[cm]") {
  Host const host{IBV_TRANSPORT_IWARP};
  // Drivers differ in which of the two is of whose READs.
  auto const [one, other, most] =
      GENERATE(table<std::uint8_t, std::uint8_t, int>({{0, 2, 0}, {2, 0, 0}, {1, 2, 1}}));
  cm_calls().responder_resources = one;
  cm_calls().initiator_depth = other;
  Stage stage{host};
  stage.connect();
  stage.run();
  REQUIRE(stage.loop.makings.size() == 2);
  for (auto const& making : stage.loop.makings) {
    REQUIRE(making.is_connected());
    auto const& reads =
        verbs::QueuePairAccess::handle_of(making.connection->queue_pair).terms.reads;
    CHECK(reads.as_initiator == most);
    CHECK(reads.as_target == most);
  }
}

TEST_CASE("a connector asks again until a listener comes, and sleeps in between", "[cm]") {
  Host const host{GENERATE(IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP)};
  auto const address = listener_here().address();
  EventLoop loop;
  auto& one = loop.add(CmConnecting::begin(address, host.prepare(), within(20s)));
  // At most four turns for an attempt, and 20 ms between two attempts.
  auto const begun = Deadline::Clock::now();
  for (int turn = 0; turn < 12; ++turn) REQUIRE(loop.turn(5000));
  CHECK(Deadline::Clock::now() - begun >= 2 * 20ms);
  CHECK(cm_calls().ids() <= 1);

  auto listener = must(CmListener::open(address));
  loop.serve(listener, [&](CmRequest request) {
    return std::move(request).begin_accept(host.prepare(), within(20s));
  });
  while (!one.is_over()) REQUIRE(loop.turn(5000));
  CHECK(one.is_connected());
}

TEST_CASE("a deadline makes the descriptor readable, and the error names the step", "[cm]") {
  struct Case {
    rdma_cm_event_type lost;
    char const* step;
  };
  auto const [lost, step] = GENERATE(
      Case{RDMA_CM_EVENT_ADDR_RESOLVED, "resolving the address 10.0.0.1:4001 was not over before"},
      Case{RDMA_CM_EVENT_ROUTE_RESOLVED, "resolving the route to 10.0.0.1:4001 was not over"},
      Case{RDMA_CM_EVENT_CONNECT_REQUEST, "connecting to 10.0.0.1:4001 was not over"},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, "connecting to 10.0.0.1:4001 was not over"});
  Host const host;
  Stage stage{host, within(100ms)};
  cm_calls().lost = {lost};
  auto& one = stage.connect();
  while (!one.is_over()) REQUIRE(stage.loop.turn(5000));

  REQUIRE(one.error.has_value());
  CHECK(*one.error == Errc::timed_out);
  CHECK_THAT(one.error->message(), Catch::Contains(step));
}

TEST_CASE("where nobody listened the error at the deadline says so", "[cm]") {
  Host const host;
  auto const address = listener_here().address();
  EventLoop loop;
  auto& one = loop.add(CmConnecting::begin(address, host.prepare(), within(200ms)));
  bool const is_cut_short = GENERATE(false, true);
  while (!one.is_over()) {
    REQUIRE(loop.turn(5000));
    if (is_cut_short) cm_calls().lost = {RDMA_CM_EVENT_ADDR_RESOLVED};  // of the second attempt
  }
  REQUIRE(one.error.has_value());
  CHECK(*one.error == Errc::timed_out);
  CHECK_THAT(one.error->message(), Catch::Contains("no peer listened by rdma_cm at " + address));
}

TEST_CASE("an acceptor whose peer falls silent gives up at its deadline", "[cm]") {
  Host const host;
  auto listener = listener_here();
  EventLoop loop;
  loop.serve(listener, [&](CmRequest request) {
    return std::move(request).begin_accept(host.prepare(), within(30ms));
  });
  cm_calls().lost = {RDMA_CM_EVENT_CONNECT_RESPONSE};
  auto& one = loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
  while (!one.is_over()) REQUIRE(loop.turn(5000));

  REQUIRE(loop.makings.size() == 2);
  REQUIRE(loop.makings[1].error.has_value());
  CHECK(*loop.makings[1].error == Errc::timed_out);
  CHECK_THAT(loop.makings[1].error->message(),
             Catch::Contains("accepting the connection of 10.0.0.2:"));
  CHECK(*one.error == Errc::denied);  // and so the peer learns it
}

TEST_CASE("a cancellation ends a connection being made at its next advance", "[cm]") {
  Host const host;
  Cancellation cancellation;
  cm_calls().lost = {RDMA_CM_EVENT_ADDR_RESOLVED};
  auto connecting =
      must(CmConnecting::begin("10.0.0.1:4001", host.prepare(), within(20s).unless(cancellation)));
  CHECK_FALSE(must(connecting.advance()).has_value());
  cancellation.cancel();
  CHECK(error_of(connecting.advance()) == Errc::cancelled);

  auto queue_pair = host.prepare();
  CHECK(error_of(cm_connect("10.0.0.1:4001", std::move(queue_pair), Canceller{20ms}.deadline())) ==
        Errc::cancelled);
}

TEST_CASE("a name is looked up by cm_connect() alone", "[cm]") {
  Host const host;
  auto const error = error_of(CmConnecting::begin("peer:4001", host.prepare(), within(1s)));
  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains("\"peer\" is no IP address"));
  CHECK(error_of(CmConnecting::begin("10.0.0.1:4001", host.prepare(), within(1s),
                                     {.source = "self"})) == Errc::invalid_argument);
  CHECK(cm_calls().names_looked_up == 0);

  CHECK(error_of(cm_connect("peer:4001", host.prepare(), within(0s), {.source = "self"})) ==
        Errc::timed_out);
  CHECK(cm_calls().names_looked_up == 2);
  must(CmConnecting::begin("[::1]:4001", host.prepare(), within(1s)));
}

TEST_CASE("a listener is polled by its descriptor", "[cm]") {
  Host const host;
  auto listener = listener_here();
  CHECK_FALSE(is_readable(listener.descriptor()));
  CHECK_FALSE(must(listener.poll()).has_value());
  EventLoop loop;
  auto& one = loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
  while (loop.turn(0)) continue;

  CHECK(is_readable(listener.descriptor()));
  auto request = must(listener.poll());
  REQUIRE(request.has_value());
  CHECK_FALSE(is_readable(listener.descriptor()));
  must(std::move(*request).reject("not today"));
  while (loop.turn(0)) continue;
  REQUIRE(one.error.has_value());
  CHECK(*one.error == Errc::denied);
  CHECK_THAT(one.error->message(), Catch::Contains("not today"));

  CmListener const moved{std::move(listener)};
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested.
  CHECK(listener.descriptor() == -1);
  CHECK(error_of(listener.poll()) == Errc::stale_handle);
  // NOLINTEND(bugprone-use-after-move)
}

TEST_CASE("a poll of a listener rejects clients that are no peers, not too many at once", "[cm]") {
  Host const host;
  Stage stage{host};
  cm_calls().replaced[RDMA_CM_EVENT_CONNECT_REQUEST] = {RDMA_CM_EVENT_CONNECT_REQUEST, 0,
                                                        bytes_of("no peer")};
  EventLoop clients;
  for (int i = 0; i < 100; ++i)
    clients.add(CmConnecting::begin(stage.listener.address(), host.prepare(), within(20s)));
  while (clients.turn(0)) continue;
  CHECK(stage.loop.turn(0));
  while (clients.turn(0)) continue;
  CHECK(clients.under_way() == 36);
  CHECK(stage.loop.turn(0));
  while (clients.turn(0)) continue;
  CHECK(clients.under_way() == 0);
  for (auto const& client : clients.makings) CHECK(*client.error == Errc::incompatible_peer);
  CHECK_FALSE(stage.loop.turn(0));
  CHECK(stage.loop.makings.empty());
}

TEST_CASE("a name that is not known yet, or whose address changes, is looked up again", "[cm]") {
  Host const host;
  // Unknown at first, then where no listener is.
  cm_calls().found_names = {"10.0.0.1", "10.0.0.3", ""};
  auto listener = listener_here();
  auto const address = listener.address();
  EventLoop loop;
  loop.serve(listener, [&](CmRequest request) {
    return std::move(request).begin_accept(host.prepare(), within(20s));
  });
  auto queue_pair = host.prepare();  // here: the fake provider has one thread at a time
  auto connecting = std::async(std::launch::async, [&] {
    return cm_connect("peer" + address.substr(address.rfind(':')), std::move(queue_pair),
                      within(20s));
  });
  while (loop.makings.empty()) loop.turn(100);
  must(connecting.get());
  CHECK(cm_calls().names_looked_up == 3);

  cm_calls().found_names = std::vector<std::string>(100);
  auto const error = error_of(cm_connect("peer:4001", host.prepare(), within(50ms)));
  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains("the host of peer:4001 was not known") &&
                                  Catch::Contains("no host \"peer\" is known to the resolver"));
}
