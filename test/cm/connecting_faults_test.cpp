// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever fails while connections are made, and wherever they are given up, the first cause
// is told and nothing is left.
// Method: each call of the fakes fails in turn, each event comes as another, each step is the last.
#include <lend/cm/connector.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <thread>

#include "cm/fake_host.hpp"
#include "support/each_failure.hpp"
#include "support/few_descriptors.hpp"

#include <cm/contract.hpp>
#include <verbs/queue/adoption.hpp>

using namespace lend;
using namespace lend::test;

namespace {

/// Every error that the program saw, one behind the other.
std::string errors_of(EventLoop const& loop) {
  std::string all = loop.listening ? loop.listening->message() : "";
  for (auto const& one : loop.makings)
    if (one.error) all += "\n" + one.error->message();
  return all;
}

/// A listener and a connector until nothing happens; what the program was told.
std::string errors_of_a_connection(Host const& host) {
  auto opened = CmListener::open("10.0.0.1:0");
  if (!opened.has_value()) return opened.error().message();
  auto& listener = opened.value();
  EventLoop loop;
  loop.serve(listener, [&](CmRequest request) {
    return std::move(request).begin_accept(host.prepare(), within(20s));
  });
  loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
  while (!loop.listening && loop.turn(0)) continue;
  return errors_of(loop);
}

ibv_transport_type any_transport() {
  return GENERATE(IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP);
}

/// Delivers held events until `count` have come, or none is left; true: so many did.
bool deliver(EventLoop& loop, int count) {
  while (loop.turn(0)) continue;
  for (; count > 0 && cm_calls().held() > 0; --count) {
    cm_calls().deliver(0);
    while (loop.turn(0)) continue;
  }
  return count == 0;
}

struct Case {
  rdma_cm_event_type expected;  // which comes as:
  rdma_cm_event_type type;
  int status;
  Errc connector;  // {}: it waits on
};

}  // namespace

TEST_CASE("whichever call of rdma_cm fails, an error names it and nothing is left", "[cm]") {
  auto const transport = any_transport();
  for_each_failure(20, [&](std::uint64_t before) {
    Host const host{transport};
    cm_calls().fail_call = static_cast<int>(before) + 1;
    cm_calls().fail_errno = EIO;
    auto const errors = errors_of_a_connection(host);
    bool const failed = !cm_calls().failed_call.empty();
    CAPTURE(cm_calls().failed_call);
    if (failed && cm_calls().failed_call != "rdma_disconnect")
      CHECK_THAT(errors, Catch::Contains(cm_calls().failed_call));
    else
      CHECK(errors.empty());
    return failed;
  });
}

TEST_CASE("whichever call of the device fails, an error names it and nothing is left", "[cm]") {
  auto const transport = any_transport();
  auto const failures = for_each_failure(1, [&](std::uint64_t before) {
    Host const host{transport};
    auto listener = listener_here();
    auto a = host.prepare(), b = host.prepare();
    Fake::get().fail_after(before, EIO);
    EventLoop loop;
    loop.serve(listener, [&](CmRequest request) {
      return std::move(request).begin_accept(std::move(b), within(20s));
    });
    auto& connector = loop.add(CmConnecting::begin(listener.address(), std::move(a), within(20s)));
    while (loop.turn(0)) continue;
    auto const errors = errors_of(loop);
    CAPTURE(errors);
    if (Fake::get().failed_call.empty()) {
      CHECK(errors.empty());
      return false;
    }
    CHECK_THAT(errors, Catch::Contains("ibv_modify_qp of queue pair"));
    // Where it is the acceptor's, the connector learns it.
    CHECK(connector.error.has_value());
    return true;
  });
  CHECK(failures == (transport == IBV_TRANSPORT_IB ? 6 : 2));
}

TEST_CASE("an event that is none of a step's own is told as what it is", "[cm]") {
  auto const [expected, type, status, error] = GENERATE(
      Case{RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, Errc::not_found},
      Case{RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, Errc::peer_lost},
      Case{RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ESTABLISHED, 0, Errc::system_failed},
      Case{RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR, -EHOSTUNREACH, Errc::not_found},
      Case{RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, Errc::peer_lost},
      Case{RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ADDR_RESOLVED, 0, Errc::system_failed},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, Errc::peer_lost},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_CONNECT_ERROR, -EIO, Errc::system_failed},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, Errc::peer_lost},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_REJECTED, 28, Errc::denied},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_REJECTED, 12, Errc::system_failed},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_DISCONNECTED, 0, Errc::peer_lost},
      // No contract with it.
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_CONNECT_RESPONSE, 0,
           Errc::incompatible_peer},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ESTABLISHED, 0, Errc::incompatible_peer},
      Case{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ADDR_CHANGE, 0, Errc{}},
      Case{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ADDR_CHANGE, 0, Errc{}});
  CAPTURE(expected, type, status);
  Host const host;
  Stage stage{host};
  cm_calls().replaced[expected] = {type, status};
  auto& one = stage.connect();
  stage.run();

  REQUIRE(one.is_over() == (error != Errc{}));
  if (one.is_over()) {
    CAPTURE(one.error->message());
    CHECK(*one.error == error);
    // And so the acceptor's is over, if there was one.
    CHECK(stage.loop.under_way() == 0);
  }
  CHECK_FALSE(stage.loop.listening.has_value());
}

TEST_CASE("an acceptor whose confirmation comes as another event tells what it is", "[cm]") {
  auto const [type, error] = GENERATE(std::pair{RDMA_CM_EVENT_UNREACHABLE, Errc::peer_lost},
                                      std::pair{RDMA_CM_EVENT_CONNECT_ERROR, Errc::system_failed},
                                      std::pair{RDMA_CM_EVENT_REJECTED, Errc::denied},
                                      std::pair{RDMA_CM_EVENT_DISCONNECTED, Errc::peer_lost},
                                      std::pair{RDMA_CM_EVENT_DEVICE_REMOVAL, Errc::peer_lost});
  Host const host;
  Stage stage{host};
  cm_calls().replaced[RDMA_CM_EVENT_ESTABLISHED] = {type, type == RDMA_CM_EVENT_REJECTED ? 28 : 0};
  stage.connect();
  stage.run();

  REQUIRE(stage.loop.makings.size() == 2);
  REQUIRE(stage.loop.makings[1].error.has_value());
  CHECK(*stage.loop.makings[1].error == error);
}

TEST_CASE("a listener whose device is removed tells it when it is polled", "[cm]") {
  Host const host;
  auto listener = listener_here();
  cm_calls().raise(RDMA_CM_EVENT_DEVICE_REMOVAL);
  CHECK(is_readable(listener.descriptor()));
  CHECK(error_of(listener.poll()) == Errc::peer_lost);
}

TEST_CASE("wherever a side gives up, all is given back and the other side ends", "[cm]") {
  auto const transport = any_transport();
  enum class Side { connector, acceptor, listener };
  auto const side = GENERATE(Side::connector, Side::acceptor, Side::listener);
  bool more = true;
  for (int steps = 0; more; ++steps) {
    Host const host{transport};
    cm_calls().holds_events = true;
    EventLoop loop;
    std::optional<CmListener> listener{listener_here()};
    auto const address = listener->address();
    loop.serve(*listener, [&](CmRequest request) {
      return std::move(request).begin_accept(host.prepare(), within(20s));
    });
    auto& connector = loop.add(CmConnecting::begin(address, host.prepare(), within(20s)));
    more = deliver(loop, steps);
    CAPTURE(steps, int(side));
    if (side == Side::listener) {
      listener.reset();
    } else if (auto const at = side == Side::connector ? 0u : 1u; at < loop.makings.size()) {
      loop.makings[at].connecting.reset();
      loop.makings[at].connection.reset();
    }
    if (side == Side::listener) cm_calls().lost = {RDMA_CM_EVENT_ADDR_RESOLVED};  // asks no more
    for (int i = 0; i < 20; ++i) static_cast<void>(deliver(loop, 1));
    if (side != Side::listener) {
      CHECK(loop.under_way() == 0);
      for (auto const& one : loop.makings)
        if (one.connection) CHECK(one.connection->queue_pair.native() != nullptr);
    } else if (loop.makings.size() == 2) {
      CHECK(connector.is_connected());  // a request does not need its listener
    } else if (!connector.error) {
      CHECK(loop.under_way() == 1);
    } else {
      CHECK(*connector.error == Errc::denied);
    }
  }
}

TEST_CASE("on iWARP a thread destroys what waits for its peer", "[cm]") {
  Host const host{IBV_TRANSPORT_IWARP};
  auto listener = listener_here();
  auto prepared = host.prepare();
  auto const is_destroyed = verbs::QueuePairAccess::end_of(prepared);
  EventLoop loop;
  auto& one = loop.add(CmConnecting::begin(listener.address(), std::move(prepared), within(20s)));
  while (loop.turn(0)) continue;
  cm_calls().holds_destruction = true;

  one.connecting.reset();  // returns
  CHECK_FALSE(is_destroyed->load());
  cm_calls().let_destroy();
  for (auto const limit = within(20s); !is_destroyed->load() && !limit.has_passed();)
    std::this_thread::yield();
  CHECK(is_destroyed->load());
}

TEST_CASE("without descriptors either side says so, and the connector learns why", "[cm]") {
  Host const host;
  auto listener = listener_here();
  for (unsigned more = 0; more < 3; ++more) {
    auto queue_pair = host.prepare();
    FewDescriptors const few{more};
    auto const begun = CmConnecting::begin(listener.address(), std::move(queue_pair), within(20s));
    CHECK(error_of(begun) == Errc::exhausted);
    CHECK(cm_calls().ids() == 1);
  }
  for (unsigned more = 0; more < 2; ++more) {
    auto queue_pair = host.prepare();
    EventLoop loop;
    auto& one = loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
    while (loop.turn(0)) continue;
    auto request = must(listener.poll());
    REQUIRE(request.has_value());
    {
      FewDescriptors const few{more};
      auto const accepted = std::move(*request).begin_accept(std::move(queue_pair), within(20s));
      CHECK(error_of(accepted) == Errc::exhausted);
    }
    while (loop.turn(0)) continue;
    CHECK(*one.error == Errc::denied);
    CHECK_THAT(one.error->message(), Catch::Contains("could not be accepted"));
  }
  EventLoop loop;
  auto& one = loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
  while (loop.turn(0)) continue;
  {
    FewDescriptors const few;
    CHECK(error_of(listener.poll()) == Errc::exhausted);  // of the request
  }
  while (loop.turn(0)) continue;
  CHECK(*one.error == Errc::denied);
  CHECK_FALSE(must(listener.poll()).has_value());
}

TEST_CASE("what cannot be connected is refused before anything is sent", "[cm]") {
  Host const host;
  auto listener = listener_here();
  std::vector<std::byte> const too_much(cm_private_bytes_max + 1);
  auto const begin = [&](PreparedQueuePair queue_pair, CmOptions const& options) {
    return error_of(
        CmConnecting::begin(listener.address(), std::move(queue_pair), within(1s), options));
  };
  auto consumed = host.prepare();
  { auto const gone = std::move(consumed); }
  CHECK(begin(host.prepare(), {.private_data = too_much}) == Errc::invalid_argument);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(begin(std::move(consumed), {}) == Errc::invalid_argument);
  CHECK(error_of(CmConnecting::begin("10.0.0.1", host.prepare(), within(1s))) ==
        Errc::invalid_argument);
  CHECK_FALSE(must(listener.poll()).has_value());

  EventLoop loop;
  auto& one = loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
  while (loop.turn(0)) continue;
  auto request = must(listener.poll());
  auto answered = std::move(*request).begin_accept(host.prepare(), within(20s), too_much);
  CHECK(error_of(answered) == Errc::invalid_argument);
  CHECK(error_of(std::move(*request).begin_accept(host.prepare(), within(20s))) ==
        Errc::stale_handle);
  while (loop.turn(0)) continue;
  CHECK_THAT(one.error->message(), Catch::Contains("could not be accepted: private_data has 33"));
}

TEST_CASE("a forked child can do nothing with its parent's connection being made", "[cm]") {
  Host const host;
  auto listener = listener_here();
  EventLoop loop;
  loop.serve(listener, [&](CmRequest request) {
    return std::move(request).begin_accept(host.prepare(), within(20s));
  });
  auto& one = loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
  bool const ends_in_child = GENERATE(false, true);
  std::array<int, 2> to_child{}, to_parent{};
  REQUIRE(::pipe(to_child.data()) == 0);
  REQUIRE(::pipe(to_parent.data()) == 0);
  ::pid_t const child = ::fork();
  REQUIRE(child >= 0);
  char byte = 0;
  if (child == 0) {
    ::close(to_child[1]);
    // It ends with its error; else the child keeps its descriptors.
    bool const are_refused =
        !ends_in_child || (error_of(one.connecting->advance()) == Errc::system_failed &&
                           error_of(listener.poll()) == Errc::system_failed);
    [[maybe_unused]] auto const told = ::write(to_parent[1], &byte, 1);
    [[maybe_unused]] auto const ended = ::read(to_child[0], &byte, 1);
    ::_exit(are_refused ? 0 : 1);
  }
  REQUIRE(::read(to_parent[0], &byte, 1) == 1);
  while (!one.is_over()) REQUIRE(loop.turn(5000));
  while (loop.turn(0)) continue;
  CHECK(loop.under_way() == 0);
  CHECK(one.is_connected());
  // Although the child may have the descriptor still, and the connection now has news.
  REQUIRE(loop.makings.size() == 2);
  loop.makings[1].connection.reset();
  CHECK_FALSE(loop.turn(0));
  ::close(to_child[1]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  for (int const end : {to_child[0], to_parent[0], to_parent[1]}) ::close(end);
  CHECK(status == 0);
}
