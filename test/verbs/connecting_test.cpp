// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: endpoints that cannot fit are refused before anything is connected; the others get exactly
// the attributes they need.
// Method: endpoints bent one field at a time; the fake provider keeps what ibv_modify_qp was given.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/context.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/queue/connecting.hpp>

#include <algorithm>

using namespace lend;
using namespace lend::test;

namespace {

Result<PreparedQueuePair> prepare(QueuePairOptions const& options = {}) {
  LEND_TRY(context, open_fake());
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(queue, CompletionQueue::create(context, 256));
  return PreparedQueuePair::create(domain, queue, options);
}

FakeDevice infiniband() {
  FakeDevice device;
  device.link_layer = IBV_LINK_LAYER_INFINIBAND;
  device.lid = 7;
  device.gids = {FakeDevice::ipv6_gid()};
  return device;
}

/// Connects to its own endpoint after `bend`.
template <class Bend>
Result<QueuePair> connect_to(FakeDevice device, Bend bend) {
  Fake::get().reset(std::move(device));
  LEND_TRY(prepared, prepare());
  Endpoint peer = prepared.endpoint();
  bend(peer);
  return std::move(prepared).connect(peer);
}

template <class Bend>
void check_misfit(FakeDevice device, Bend bend, std::string_view because) {
  auto const result = connect_to(std::move(device), bend);
  REQUIRE(result.has_error());
  INFO(result.error().message());
  CHECK(result.error() == Errc::incompatible_peer);
  CHECK(result.error().message().find(because) != std::string::npos);
  // When it was prepared, and not since.
  REQUIRE(Fake::get().modified.size() == 1);
  CHECK(Fake::get().modified[0].attributes.qp_state == IBV_QPS_INIT);
  CHECK(Fake::get().live() == 0);
}

}  // namespace

TEST_CASE("a peer that cannot fit is refused before the queue pair is moved on", "[verbs]") {
  FakeDevice const ethernet;
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.device_kind = DeviceKind::soft; },
      "device kinds differ: ours card, the peer's soft");
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.link_layer = LinkLayer::infiniband; },
      "link layers differ: ours Ethernet, the peer's InfiniBand");
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.gid = {}; },
      "address forms differ: ours IPv4 10.0.0.1, the peer's no GID");
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.gid = FakeDevice::ipv6_gid(); },
      "ours IPv4 10.0.0.1, the peer's IPv6 fe80::200:0:0:1");
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.mtu_bytes = 9000; }, "MTU of 9000 bytes");
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.queue_pair_number = {}; }, "queue pair number 0");
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.send_depth = 0; }, "depth 0");
  check_misfit(
      infiniband(), [](Endpoint& peer) { peer.gid_type = GidType{9}; }, "GID type 9 is unknown");
  check_misfit(
      infiniband(), [](Endpoint& peer) { peer.device_kind = DeviceKind{9}; },
      "device kind 9 is unknown");
  check_misfit(
      infiniband(), [](Endpoint& peer) { peer.link_layer = LinkLayer{9}; },
      "link layer 9 is unknown");
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.receive_depth = 0; }, "depth 0");
  check_misfit(
      ethernet, [](Endpoint& peer) { peer.gid_type = GidType::roce_v1; },
      "GID types differ: ours RoCE v2 (10.0.0.1), the peer's RoCE v1 (10.0.0.1); choose");
  auto without_gids = infiniband();
  without_gids.gids = {GidBytes{}};
  check_misfit(
      without_gids, [](Endpoint& peer) { peer.lid = 0; },
      "need a LID: ours is 7, the peer's 0, where 0 is none");
}

TEST_CASE("the transitions carry both ends' numbers and the smaller MTU", "[verbs]") {
  Endpoint local;
  Endpoint other;
  auto const result = connect_to({}, [&](Endpoint& peer) {
    local = peer;
    peer.mtu_bytes = 1024;
    peer.queue_pair_number = QueuePairNumber::truncated(99);
    peer.packet_sequence_number = PacketSequenceNumber::truncated(0xabcdef);
    peer.gid[15] = 2;
    other = peer;
  });

  REQUIRE(result.has_value());
  auto const& steps = Fake::get().modified;
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].attributes.qp_state == IBV_QPS_INIT);
  CHECK(steps[0].attributes.port_num == 1);
  CHECK(steps[0].attributes.qp_access_flags == (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
  auto const& receive = steps[1].attributes;
  CHECK(receive.qp_state == IBV_QPS_RTR);
  CHECK(receive.path_mtu == IBV_MTU_1024);
  CHECK(receive.dest_qp_num == 99);
  CHECK(receive.rq_psn == 0xabcdef);
  CHECK(receive.max_dest_rd_atomic == 16);
  CHECK(receive.min_rnr_timer == 12);
  CHECK(receive.ah_attr.is_global == 1);
  CHECK(receive.ah_attr.port_num == 1);
  CHECK(std::equal(other.gid.begin(), other.gid.end(), receive.ah_attr.grh.dgid.raw));
  auto const& send = steps[2].attributes;
  CHECK(send.qp_state == IBV_QPS_RTS);
  CHECK(send.sq_psn == local.packet_sequence_number.value());
  CHECK(send.max_rd_atomic == 16);
  CHECK(send.timeout == 14);
  CHECK(send.retry_cnt == 6);
  CHECK(send.rnr_retry == 7);
  CHECK(result.value().peer() == other);
  CHECK(result.value().endpoint() == local);
  CHECK(result.value().state() == QueuePairState::ready_to_send);
}

TEST_CASE("on InfiniBand a LID suffices within a subnet, a GID is used beyond", "[verbs]") {
  REQUIRE(connect_to(infiniband(), [](Endpoint& peer) { peer.lid = 9; }).has_value());
  CHECK(Fake::get().modified.at(1).attributes.ah_attr.is_global == 0);
  CHECK(Fake::get().modified.at(1).attributes.ah_attr.dlid == 9);

  REQUIRE(connect_to(infiniband(), [](Endpoint& peer) { peer.gid[7] = 1; }).has_value());
  CHECK(Fake::get().modified.at(1).attributes.ah_attr.is_global == 1);

  REQUIRE(connect_to(infiniband(), [](Endpoint& peer) { peer.lid = 0; }).has_value());
  CHECK(Fake::get().modified.at(1).attributes.ah_attr.is_global == 1);

  auto of_virtual_function = infiniband();
  of_virtual_function.port_flags = IBV_QPF_GRH_REQUIRED;
  REQUIRE(connect_to(of_virtual_function, [](Endpoint&) {}).has_value());
  CHECK(Fake::get().modified.at(1).attributes.ah_attr.is_global == 1);
}

TEST_CASE("a port that went down after it was opened is named before anything is connected",
          "[verbs]") {
  Fake::get().reset();
  auto const context = open_fake().value();
  auto const domain = context.allocate_protection_domain().value();
  auto const queue = CompletionQueue::create(context, 256).value();
  auto prepared = PreparedQueuePair::create(domain, queue, {}).value();
  auto const self = prepared.endpoint();
  Fake::get().device.ports = {IBV_PORT_DOWN};

  auto const too_late = std::move(prepared).connect(self).error();
  auto const refused = PreparedQueuePair::create(domain, queue, {}).error();

  for (auto const& error : {too_late, refused}) {
    INFO(error.message());
    CHECK(error == Errc::not_found);
    CHECK(error.message().find("fake0: port 1 is DOWN; bring its cable") != std::string::npos);
  }
  // When it was prepared, and not since.
  REQUIRE(Fake::get().modified.size() == 1);
  CHECK(Fake::get().modified[0].attributes.qp_state == IBV_QPS_INIT);
}

TEST_CASE("an endpoint has the LID and the MTU that its port has now", "[verbs]") {
  Fake::get().reset(infiniband());
  auto const context = open_fake().value();
  auto const domain = context.allocate_protection_domain().value();
  auto const queue = CompletionQueue::create(context, 256).value();
  Fake::get().device.lid = 8;
  Fake::get().device.mtu = IBV_MTU_2048;

  auto const prepared = PreparedQueuePair::create(domain, queue, {}).value();

  CHECK(prepared.endpoint().lid == 8);
  CHECK(prepared.endpoint().mtu_bytes == 2048);
}

TEST_CASE("what the device can do less of is not asked of it", "[verbs]") {
  FakeDevice device;
  device.reads_max = 3;
  REQUIRE(connect_to(device, [](Endpoint&) {}).has_value());

  CHECK(Fake::get().modified.at(1).attributes.max_dest_rd_atomic == 3);
  CHECK(Fake::get().modified.at(2).attributes.max_rd_atomic == 3);
}

TEST_CASE("no more reads are outstanding than the peer serves", "[verbs]") {
  REQUIRE(connect_to({}, [](Endpoint& peer) { peer.reads_served = 2; }).has_value());

  CHECK(Fake::get().modified.at(1).attributes.max_dest_rd_atomic == 16);
  CHECK(Fake::get().modified.at(2).attributes.max_rd_atomic == 2);
}

TEST_CASE("endpoints do not connect an iWARP queue pair, and the reason says what does",
          "[verbs]") {
  FakeDevice device;
  device.transport = IBV_TRANSPORT_IWARP;
  Fake::get().reset(device);

  auto prepared = prepare().value();
  auto const self = prepared.endpoint();
  auto const connected = std::move(prepared).connect(self);

  REQUIRE(connected.has_error());
  CHECK(connected.error() == Errc::unsupported);
  CHECK(connected.error().message().find("rdma_cm") != std::string::npos);
  CHECK(Fake::get().live() == 0);
}

TEST_CASE("packet sequence numbers differ from queue pair to queue pair", "[verbs]") {
  Fake::get().reset();
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 8; ++i)
    numbers.push_back(prepare().value().endpoint().packet_sequence_number.value());

  // All eight alike by chance: 2^-168.
  CHECK_FALSE(std::equal(numbers.begin() + 1, numbers.end(), numbers.begin()));
}

TEST_CASE("a queue pair consumed or moved from answers an error", "[verbs]") {
  Fake::get().reset();
  auto prepared = prepare().value();
  auto const self = prepared.endpoint();
  REQUIRE(std::move(prepared).connect(self).has_value());

  CHECK(std::move(prepared).connect(self).error() == Errc::invalid_argument);
}

TEST_CASE("each option out of its range is refused with its name, value and limit", "[verbs]") {
  Fake::get().reset();
  auto const check = [](QueuePairOptions const& options, std::string_view text) {
    auto const prepared = prepare(options);
    REQUIRE(prepared.has_error());
    INFO(prepared.error().message());
    CHECK(prepared.error() == Errc::invalid_argument);
    CHECK(prepared.error().message().find(text) != std::string::npos);
  };

  check({.send_depth = 0}, "send_depth is 0; it must be 1 to 1024");
  check({.send_depth = 1025}, "send_depth is 1025; it must be 1 to 1024");
  check({.receive_depth = 0}, "receive_depth is 0");
  check({.receive_depth = 0xffff'ffff}, "receive_depth is 4294967295");
  check({.elements = 0}, "elements is 0; it must be 1 to 8");
  check({.elements = 9}, "elements is 9");
  check({.connection = {.ack_timeout = std::chrono::nanoseconds{0}}}, "ack_timeout is 0 ns");
  check({.connection = {.ack_timeout = std::chrono::hours{3}}}, "ack_timeout is 10800000000000 ns");
  check({.connection = {.ack_retries = 8}}, "ack_retries is 8");
  check({.receiver_not_ready_retries = 7}, "receiver_not_ready_retries is 7");
  check({.receiver_not_ready_delay = std::chrono::seconds{1}}, "receiver_not_ready_delay");
  check({.send_depth = 128, .receive_depth = 129}, "is 257, more than what is left");
  CHECK(Fake::get().live() == 0);
}

TEST_CASE("queue pairs share a completion queue only up to its depth", "[verbs]") {
  Fake::get().reset();
  auto const context = open_fake().value();
  auto const domain = context.allocate_protection_domain().value();
  auto const queue = CompletionQueue::create(context, 64).value();
  QueuePairOptions const half{.send_depth = 16, .receive_depth = 16};
  {
    auto const one = PreparedQueuePair::create(domain, queue, half);
    auto const two = PreparedQueuePair::create(domain, queue, half);
    CHECK(one.has_value());
    CHECK(two.has_value());
    CHECK(PreparedQueuePair::create(domain, queue, half).error() == Errc::invalid_argument);
  }
  CHECK(PreparedQueuePair::create(domain, queue, half).has_value());
}

TEST_CASE("a queue pair's parts must be of one opened device", "[verbs]") {
  Fake::get().reset();
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto const queue = CompletionQueue::create(open_fake().value(), 256).value();

  CHECK(PreparedQueuePair::create(domain, queue, {}).error() == Errc::invalid_argument);
}

TEST_CASE("a device that grants a queue pair less than asked is refused", "[verbs]") {
  FakeDevice device;
  device.send_depth_withheld = 1;
  Fake::get().reset(device);

  CHECK(prepare().error() == Errc::exhausted);
  CHECK(Fake::get().live() == 0);
}
