// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: by rdma_cm a connection has the class, level and address that were chosen, and what it
// cannot obey is refused by name. Method: the fake provider and the fake rdma_cm.
#include "support/device_environment.hpp"

#include <verbs/queue/adoption.hpp>
#include <verbs/queue/connection_settings.hpp>

#include <algorithm>

#include "cm/fake_host.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// The address vectors of both sides, the accepting one's first.
struct Vectors {
  ibv_ah_attr accepting{}, connecting{};
};

Vectors connect(Host const& host, ConnectionOptions const& accepting,
                ConnectionOptions const& connecting) {
  auto listener = listener_here();
  EventLoop loop;
  loop.serve(listener, [&](CmRequest request) {
    return std::move(request).begin_accept(host.prepare(accepting), within(20s));
  });
  Fake::get().modified.clear();
  loop.add(CmConnecting::begin(listener.address(), host.prepare(connecting), within(20s)));
  while (loop.turn(0)) continue;
  for (auto const& one : loop.makings) REQUIRE(one.is_connected());
  std::vector<ibv_ah_attr> vectors;
  for (auto const& each : Fake::get().modified)
    if ((each.mask & IBV_QP_AV) != 0) vectors.push_back(each.attributes.ah_attr);
  REQUIRE(vectors.size() == 2);
  return {vectors[0], vectors[1]};
}

Error refusal(Host const& host, ConnectionOptions const& options = {}) {
  auto listener = listener_here();
  return error_of(CmConnecting::begin(listener.address(), host.prepare(options), within(20s)));
}

}  // namespace

TEST_CASE("by rdma_cm each side has its own class, else that of its peer", "[cm]") {
  Host const host;
  auto both = connect(host, {}, {.service_level = 3, .traffic_class = 106});
  CHECK(both.connecting.grh.traffic_class == 106);
  CHECK(both.accepting.grh.traffic_class == 106);  // the request carries it
  CHECK(both.connecting.sl == 3);
  CHECK(both.accepting.sl == 0);

  both = connect(host, {.traffic_class = 26}, {});
  CHECK(both.connecting.grh.traffic_class == 26);  // the answer carries it
  CHECK(both.accepting.grh.traffic_class == 26);

  both = connect(host, {.service_level = 4, .traffic_class = 26}, {.traffic_class = 106});
  CHECK(both.connecting.grh.traffic_class == 106);
  CHECK(both.accepting.grh.traffic_class == 26);
  CHECK(both.accepting.sl == 4);

  EnvironmentVariable const variable{"LEND_TRAFFIC_CLASS", "106"};
  both = connect(host, {.traffic_class = 0}, {});
  CHECK(both.connecting.grh.traffic_class == 106);
  CHECK(both.accepting.grh.traffic_class == 0);
}

TEST_CASE("by rdma_cm a chosen address is where the connection begins", "[cm]") {
  Host const host;
  static_cast<void>(connect(host, {}, {}));
  CHECK(cm_calls().sources.empty());
  static_cast<void>(connect(host, {}, {.gid = {.network = "10.0.0.0/24"}}));
  CHECK(cm_calls().sources == std::vector<std::uint32_t>{0x0a000001});
  EnvironmentVariable const variable{"LEND_GID", "10.0.0.1"};
  static_cast<void>(connect(host, {}, {}));
  CHECK(cm_calls().sources.size() == 2);
}

TEST_CASE("an end that chose another address than the connection came by is refused", "[cm]") {
  FakeDevice two = roomy(IBV_TRANSPORT_IB);
  auto other = FakeDevice::ipv4_gid();
  other[14] = 1;
  two.gids = {FakeDevice::ipv4_gid(), other};
  Host const host{two};
  auto listener = listener_here();
  EventLoop loop;
  loop.serve(listener, [&](CmRequest request) {
    return std::move(request).begin_accept(host.prepare({.gid = {.network = "10.0.1.0/24"}}),
                                           within(20s));
  });
  auto& connecting = loop.add(CmConnecting::begin(listener.address(), host.prepare(), within(20s)));
  while (loop.turn(0)) continue;
  auto const& accepting = loop.makings.back();
  REQUIRE(accepting.error);
  CHECK(*accepting.error == Errc::unsupported);
  CHECK_THAT(accepting.error->message(),
             Catch::StartsWith("gid selects 10.0.1.1, and the connection came by 10.0.0.1"));
  REQUIRE(connecting.error);
  CHECK_THAT(connecting.error->message(), Catch::Contains("10.0.1.1"));
}

TEST_CASE("settings of a connection by rdma_cm say what it came by, and what its peer chose",
          "[cm]") {
  FakeDevice two = roomy(IBV_TRANSPORT_IB);
  two.gids = {FakeDevice::ipv4_gid(), FakeDevice::ipv6_gid()};
  Host const host{two};
  auto listener = listener_here();
  EventLoop loop;
  loop.serve(listener, [&](CmRequest request) {
    return std::move(request).begin_accept(host.prepare(), within(20s));
  });
  loop.add(
      CmConnecting::begin(listener.address(), host.prepare({.traffic_class = 106}), within(20s)));
  while (loop.turn(0)) continue;
  REQUIRE(loop.makings.back().is_connected());
  auto const& accepted = loop.makings.back().connection->queue_pair;
  auto const all = verbs::settings_of(verbs::QueuePairAccess::handle_of(accepted));
  auto const of = [&](std::string_view name) {
    auto const found = std::ranges::find(all, name, &Setting::name);
    REQUIRE(found != all.end());
    return found->value + " (" + found->source + ")";
  };
  CHECK(of("gid") == "10.0.0.1 (index 0, RoCE v2) (default)");
  CHECK(of("traffic_class") == "106 (DSCP 26, ECN 2) (peer)");
}

TEST_CASE("what rdma_cm cannot obey is refused by name, that of a variable, too", "[cm]") {
  Host const host;
  auto const check = [&](ConnectionOptions const& options, char const* name) {
    auto const error = refusal(host, options);
    CHECK(error == Errc::unsupported);
    CHECK_THAT(error.message(), Catch::StartsWith(std::string{name} + " is set, which"));
  };
  check({.mtu_bytes = 4096}, "mtu_bytes");
  check({.partition_key = 0xffff}, "partition_key");
  check({.gid = {.index = 0}}, "gid.index");
  EnvironmentVariable const mtu{"LEND_MTU", "1024"};
  check({}, "LEND_MTU");
}

TEST_CASE("a level of InfiniBand and a class of iWARP are refused by name", "[cm]") {
  {
    FakeDevice infiniband = roomy(IBV_TRANSPORT_IB);
    infiniband.link_layer = IBV_LINK_LAYER_INFINIBAND;
    infiniband.lid = 7;
    Host const host{infiniband};
    CHECK_THAT(refusal(host, {.service_level = 0}).message(), Catch::StartsWith("service_level"));
  }
  Host const host{IBV_TRANSPORT_IWARP};
  EnvironmentVariable const variable{"LEND_TRAFFIC_CLASS", "106"};
  CHECK_THAT(refusal(host).message(), Catch::StartsWith("LEND_TRAFFIC_CLASS is set, which"));
}
