// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a connection may choose reaches the device as it was said, or is refused with the
// choices that there are, before a queue pair exists.
// Method: the attributes that the fake provider was given.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

using namespace lend;
using namespace lend::test;

namespace {

/// Connected to itself on `device`.
Result<QueuePair> connected(QueuePairOptions const& options, FakeDevice device = {}) {
  Fake::get().reset(std::move(device));
  LEND_TRY(context, open_fake());
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(queue, CompletionQueue::create(context, 512));
  LEND_TRY(prepared, PreparedQueuePair::create(domain, queue, options));
  Endpoint const itself = prepared.endpoint();
  return std::move(prepared).connect(itself);
}

ibv_qp_attr const& attributes_at(std::size_t step) {
  return Fake::get().modified.at(step).attributes;
}

void check_refused(QueuePairOptions const& options, std::string_view text,
                   Errc code = Errc::invalid_argument, FakeDevice device = {}) {
  auto const result = connected(options, std::move(device));
  REQUIRE(result.has_error());
  INFO(result.error().message());
  CHECK(result.error() == code);
  CHECK(result.error().message().find(text) != std::string::npos);
  CHECK(Fake::get().queue_pairs_made == 0);
}

}  // namespace

TEST_CASE("a connection's choices reach the device", "[verbs]") {
  FakeDevice device;
  device.partition_keys = {0xffff, 0, 0x8012};
  REQUIRE(connected({.connection = {.mtu_bytes = 1024,
                                    .service_level = 15,
                                    .traffic_class = 106,
                                    .partition_key = 0x12},
                     .reads_in_flight = 100,
                     .reads_served = 1,
                     .remote_access = RemoteAccess::read},
                    device)
              .has_value());

  CHECK(attributes_at(0).qp_access_flags == IBV_ACCESS_REMOTE_READ);
  CHECK(attributes_at(0).pkey_index == 2);
  CHECK(attributes_at(1).path_mtu == IBV_MTU_1024);
  CHECK(attributes_at(1).ah_attr.sl == 15);
  CHECK(attributes_at(1).ah_attr.grh.traffic_class == 106);
  CHECK(attributes_at(1).max_dest_rd_atomic == 1);
  CHECK(attributes_at(2).max_rd_atomic == 1);  // the peer's, which is itself
}

TEST_CASE("without choices a connection has all rights, the port's MTU and its first partition",
          "[verbs]") {
  REQUIRE(connected({}).has_value());
  CHECK(attributes_at(0).qp_access_flags == (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
  CHECK(attributes_at(0).pkey_index == 0);
  CHECK(attributes_at(1).path_mtu == IBV_MTU_4096);
  CHECK(attributes_at(1).ah_attr.sl == 0);

  REQUIRE(connected({.remote_access = RemoteAccess{}}).has_value());
  CHECK(attributes_at(0).qp_access_flags == 0);
}

TEST_CASE("a choice that the device or port does not have is refused with those it has",
          "[verbs]") {
  FakeDevice slow;
  slow.mtu = IBV_MTU_1024;
  check_refused({.connection = {.mtu_bytes = 2048}}, "at most that of the port of fake0, 1024",
                Errc::invalid_argument, slow);
  check_refused({.connection = {.mtu_bytes = 1500}},
                "mtu is 1500; it must be 256, 512, 1024, 2048 or 4096");
  check_refused({.reads_in_flight = 129}, "reads_in_flight is 129; it must be 1 to 128");
  check_refused({.reads_in_flight = 0}, "reads_in_flight is 0");
  check_refused({.reads_served = 0}, "reads_served is 0; it must be 1 to 128");
  check_refused({.remote_access = RemoteAccess{8}}, "remote_access is 8");
  check_refused({.connection = {.service_level = 16}}, "service_level is 16; it must be 0 to 15");
  FakeDevice partitioned;
  partitioned.partition_keys = {0x7fff, 0, 0x8012};
  check_refused({.connection = {.partition_key = 0x13}},
                "partition_key 0x13 is none of port 1 of fake0", Errc::not_found, partitioned);
  check_refused({.connection = {.partition_key = 0x13}}, "which has 0x7fff, 0x8012",
                Errc::not_found, partitioned);
  check_refused({.connection = {.partition_key = 0x8000}}, "partition_key 0x8000", Errc::not_found,
                partitioned);
  check_refused({.receive_elements = 0}, "receive_elements is 0; it must be 1 to 8");
  check_refused({.receive_elements = 9}, "receive_elements is 9");
}

TEST_CASE("sends and receives have element limits of their own", "[verbs]") {
  auto end = connected({.elements = 3, .receive_elements = 1}).value();
  CHECK(end.elements() == 3);
  CHECK(end.receive_elements() == 1);
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto memory = domain.allocate(64).value();

  auto const refused = end.unsafe_post_receive(1, {memory.scatter(0, 1), memory.scatter(1, 1)});
  CHECK(refused.error().message().find("2 elements, this queue takes at most 1") !=
        std::string::npos);
  auto const sent = end.unsafe_post_send(
      2, {memory.gather(0, 1), memory.gather(1, 1), memory.gather(2, 1), memory.gather(3, 1)});
  CHECK(sent.error().message().find("4 elements, this queue takes at most 3") != std::string::npos);
}
