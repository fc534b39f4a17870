// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each service is brought up with the attributes that verbs require of it
// and no others, and an address handle carries the way that was chosen. Method:
// what the fake provider was given, against the tables of ibv_modify_qp(3).
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <cerrno>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::test;

namespace {

struct Opened {
  Context context = open_fake().value();
  ProtectionDomain domain = context.allocate_protection_domain().value();
  CompletionQueue queue = CompletionQueue::create(context, 512).value();
};

std::vector<int> masks() {
  std::vector<int> all;
  for (auto const& modified : Fake::get().modified) all.push_back(modified.mask);
  return all;
}

constexpr int to_init_uc = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int to_rtr_uc =
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
constexpr int to_init_ud = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

}  // namespace

TEST_CASE("an unreliable connection is brought up with what it has", "[verbs]") {
  Fake::get().reset();
  Opened const opened;
  auto prepared = PreparedUnreliableQueuePair::create(opened.domain, opened.queue, {}).value();
  Endpoint const itself = prepared.endpoint();
  CHECK(itself.service == Service::unreliable_connection);
  REQUIRE(std::move(prepared).connect(itself).has_value());

  CHECK(masks() == std::vector{to_init_uc, to_rtr_uc, to_rts});
  CHECK(Fake::get().modified[0].attributes.qp_access_flags == IBV_ACCESS_REMOTE_WRITE);
  CHECK(Fake::get().types == std::vector{IBV_QPT_UC});
}

TEST_CASE("by hand a path begins at the port that INIT chose, or nowhere", "[verbs]") {
  FakeDevice device;
  device.ports = {IBV_PORT_ACTIVE, IBV_PORT_ACTIVE};
  Fake::get().reset(std::move(device));
  Opened const opened;
  auto prepared = PreparedUnreliableQueuePair::create(opened.domain, opened.queue, {}).value();
  auto queue_pair = std::move(prepared).unsafe_unconnected().value();
  QueuePairChange change{.to = QueuePairState::ready_to_receive,
                         .path = PeerPath{.port = std::uint8_t{2}},
                         .mtu_bytes = 1024,
                         .peer = QueuePairNumber::truncated(1),
                         .receive_from = PacketSequenceNumber::truncated(1)};
  auto const refused = queue_pair.unsafe_modify(change);
  REQUIRE(refused.has_error());
  CHECK(refused.error() == Errc::invalid_argument);
  CHECK(refused.error().message().find("path.port is 2, and its own port is 1") !=
        std::string::npos);
  CHECK(Fake::get().modified.size() == 1);

  change.path->port.reset();
  REQUIRE(queue_pair.unsafe_modify(change).has_value());
  CHECK(Fake::get().modified.back().attributes.ah_attr.port_num == 1);
}

TEST_CASE("a queue pair for datagrams is brought up with its key, and no peer", "[verbs]") {
  Fake::get().reset();
  Opened const opened;
  DatagramOptions const options{.connection = {.service_level = 3, .traffic_class = 104},
                                .queue_key = 0x4321};
  auto prepared = PreparedDatagramQueuePair::create(opened.domain, opened.queue, options).value();
  Endpoint const itself = prepared.endpoint();
  auto const queue_pair = std::move(prepared).activate().value();

  CHECK(masks() == std::vector{to_init_ud, int{IBV_QP_STATE}, to_rts});
  CHECK(Fake::get().modified[0].attributes.qkey == 0x4321);
  CHECK(Fake::get().types == std::vector{IBV_QPT_UD});
  CHECK(queue_pair.message_bytes_max() == 4096);

  auto const destination = queue_pair.destination(itself).value();
  REQUIRE(Fake::get().addresses.size() == 1);
  CHECK(Fake::get().addresses[0].sl == 3);
  CHECK(Fake::get().addresses[0].is_global == 1);
  CHECK(Fake::get().addresses[0].grh.traffic_class == 104);
  CHECK(Fake::get().live("address handle") == 1);
}

TEST_CASE(
    "a datagram's address handle that the device refuses is an error "
    "that names the call",
    "[verbs]") {
  Fake::get().reset();
  Opened const opened;
  auto prepared = PreparedDatagramQueuePair::create(opened.domain, opened.queue, {}).value();
  Endpoint const itself = prepared.endpoint();
  auto const queue_pair = std::move(prepared).activate().value();
  for (auto const& [errno_value, code] :
       {std::pair{EINVAL, Errc::invalid_argument}, std::pair{ENOMEM, Errc::exhausted},
        std::pair{EIO, Errc::system_failed}}) {
    Fake::get().fail_after(0, errno_value);
    auto const refused = queue_pair.destination(itself);
    REQUIRE(refused.has_error());
    CHECK(refused.error() == code);
    CHECK(refused.error().message().find("ibv_create_ah failed") != std::string::npos);
  }
  CHECK(Fake::get().live("address handle") == 0);
}

TEST_CASE(
    "iWARP has reliable connections only, and says so before a queue "
    "pair is made",
    "[verbs]") {
  FakeDevice device;
  device.transport = IBV_TRANSPORT_IWARP;
  Fake::get().reset(device);
  Opened const opened;
  CHECK_FALSE(opened.context.capabilities().unreliable);
  CHECK_FALSE(opened.context.capabilities().datagrams);

  auto const refused = PreparedDatagramQueuePair::create(opened.domain, opened.queue, {});
  CHECK(refused.error() == Errc::unsupported);
  CHECK(refused.error().message().find("reliable connections only") != std::string::npos);
  CHECK(Fake::get().queue_pairs_made == 0);
}
