// SPDX-License-Identifier: MIT OR Apache-2.0
// Both sides of a connection by rdma_cm, where cm is in this build. One thread at a time.
#include "support/by_cm.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>

#include "support/two_ends.hpp"

#ifdef LEND_TEST_HAS_CM
#include <lend/cm/connector.hpp>
#include <lend/cm/group_connector.hpp>
#include <lend/cm/listener.hpp>
#endif

namespace lend::test {

#ifdef LEND_TEST_HAS_CM
using namespace std::chrono_literals;

namespace {

constexpr auto bound = 60s;  // a guest's emulated processors may be slow

CmListener listener_here() {
  char const* const host = std::getenv("LEND_TEST_ADDRESS");
  if (host == nullptr) FAIL("LEND_TEST_ADDRESS does not name the device's IP address");
  return must(CmListener::open(std::string{host} + ":0"));
}

QueuePair accept_at(CmListener& listener, PreparedQueuePair queue_pair) {
  auto request = must(listener.next(within(bound)));
  return must(std::move(request).accept(std::move(queue_pair), within(bound))).queue_pair;
}

}  // namespace

std::optional<std::pair<QueuePair, QueuePair>> try_connect_by_cm(PreparedQueuePair connector,
                                                                 PreparedQueuePair acceptor) {
  auto listener = listener_here();
  auto connecting = std::async(std::launch::async, [&] {
    return cm_connect(listener.address(), std::move(connector), within(bound));
  });
  QueuePair accepted = accept_at(listener, std::move(acceptor));
  auto connected = connecting.get();
  if (!connected.has_value() && connected.error() == Errc::denied) {
    std::puts(("connected again: " + connected.error().message()).c_str());
    return std::nullopt;
  }
  return std::pair{must(std::move(connected)).queue_pair, std::move(accepted)};
}

GroupConnector const* group_connector() noexcept {
  return &cm_group_connector();
}

Result<QueuePair> reach_by_cm(LinkAddress const& at, PreparedQueuePair queue_pair) {
  auto const address = text_of(at.host) + ":" + std::to_string(at.port);
  LEND_TRY(connected,
           cm_connect(address, std::move(queue_pair), within(bound), {.private_data = at.key}));
  return std::move(connected.queue_pair);
}

QueuePair accept_by_cm(PreparedQueuePair queue_pair,
                       std::function<void(std::string const&)> const& tell) {
  auto listener = listener_here();
  tell(listener.address());
  return accept_at(listener, std::move(queue_pair));
}

QueuePair connect_by_cm(std::string const& address, PreparedQueuePair queue_pair) {
  return must(cm_connect(address, std::move(queue_pair), within(bound))).queue_pair;
}

#else

namespace {

[[noreturn]] void missing() {
  FAIL("this device connects by rdma_cm only, and lend was built without cm");
  std::abort();
}

}  // namespace

std::optional<std::pair<QueuePair, QueuePair>> try_connect_by_cm(PreparedQueuePair,
                                                                 PreparedQueuePair) {
  missing();
}
GroupConnector const* group_connector() noexcept {
  return nullptr;
}
Result<QueuePair> reach_by_cm(LinkAddress const&, PreparedQueuePair) {
  missing();
}
QueuePair accept_by_cm(PreparedQueuePair, std::function<void(std::string const&)> const&) {
  missing();
}
QueuePair connect_by_cm(std::string const&, PreparedQueuePair) {
  missing();
}

#endif

std::pair<QueuePair, QueuePair> connect_by_cm(PreparedQueuePair connector,
                                              PreparedQueuePair acceptor) {
  auto both = try_connect_by_cm(std::move(connector), std::move(acceptor));
  REQUIRE(both.has_value());
  return std::move(*both);
}

}  // namespace lend::test
