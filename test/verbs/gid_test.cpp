// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a connection takes the best address of its port, or the one that was asked for; what is
// not there is refused with what is. Method: GID tables scripted on the fake provider, which keeps
// the index that ibv_modify_qp was given.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/channel/builder.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/gid.hpp>
#include <verbs/device/device_list.hpp>
#include <verbs/device/gid_table.hpp>

#include <optional>

using namespace lend;
using namespace lend::test;

namespace {

GidBytes const none{};
GidBytes const unreadable = FakeDevice::unreadable_gid();
GidBytes const ipv4 = FakeDevice::ipv4_gid();  // 10.0.0.1
GidBytes const global{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
GidBytes const link_local = FakeDevice::ipv6_gid();
constexpr auto v1 = IBV_GID_TYPE_ROCE_V1;
constexpr auto v2 = IBV_GID_TYPE_ROCE_V2;

void set_table(std::vector<GidBytes> gids, std::vector<ibv_gid_type> types = {}) {
  FakeDevice device;
  device.gids = std::move(gids);
  device.gid_types = std::move(types);
  Fake::get().reset(std::move(device));
}

Result<PreparedChannel> prepare(GidChoice const& choice, std::uint8_t port = 0) {
  LEND_TRY(devices, verbs::devices_of(fake_provider()));
  LEND_TRY(context, devices.front().open(port));
  LEND_TRY(domain, context.allocate_protection_domain());
  ChannelOptions options;
  options.queue_pair.connection.gid = choice;
  return prepare_channel(domain, options);
}

/// The index of the entry that a connection to itself uses.
int index_used(GidChoice const& choice = {}) {
  auto prepared = prepare(choice).value();
  auto const self = prepared.endpoint();
  REQUIRE(std::move(prepared).handshake(self).has_value());
  auto const& steps = Fake::get().modified;
  return steps.at(steps.size() - 2).attributes.ah_attr.grh.sgid_index;  // INIT to RTR
}

void check_refused(GidChoice const& choice, Errc code, std::string_view text) {
  auto const prepared = prepare(choice);
  REQUIRE(prepared.has_error());
  INFO(prepared.error().message());
  CHECK(prepared.error() == code);
  CHECK(prepared.error().message().find(text) != std::string::npos);
  CHECK(Fake::get().live() == 0);
}

}  // namespace

TEST_CASE("RoCE v2 goes before v1, IPv4 before IPv6, link-local last", "[verbs]") {
  std::vector<std::pair<GidBytes, ibv_gid_type>> const best_first{
      {ipv4, v2}, {global, v2}, {link_local, v2}, {ipv4, v1}, {global, v1}, {link_local, v1}};

  for (std::size_t better = 0; better < best_first.size(); ++better)
    for (std::size_t worse = better + 1; worse < best_first.size(); ++worse) {
      INFO(better << " against " << worse);
      set_table({best_first[worse].first, none, best_first[better].first},
                {best_first[worse].second, v2, best_first[better].second});
      CHECK(index_used() == 2);
      set_table({best_first[better].first, best_first[worse].first},
                {best_first[better].second, best_first[worse].second});
      CHECK(index_used() == 0);
    }
}

TEST_CASE("the table of a RoCE card is read as it comes", "[verbs]") {
  set_table({link_local, link_local, ipv4, ipv4, none}, {v1, v2, v1, v2, v1});
  CHECK(index_used() == 3);

  auto const gids = open_fake().value().gids().value();

  REQUIRE(gids.size() == 4);
  CHECK(gids[0] == GidEntry{3, GidType::roce_v2, ipv4});
  CHECK(gids[1] == GidEntry{1, GidType::roce_v2, link_local});
  CHECK(gids[2] == GidEntry{2, GidType::roce_v1, ipv4});
  CHECK(gids[3] == GidEntry{0, GidType::roce_v1, link_local});
}

TEST_CASE("empty and unreadable entries are passed over, the first of equals is taken", "[verbs]") {
  set_table({none, link_local, ipv4, ipv4});
  CHECK(index_used() == 2);
  set_table({none, link_local, none});
  CHECK(index_used() == 1);
  set_table({unreadable, link_local, unreadable});
  CHECK(index_used() == 1);
}

TEST_CASE("on InfiniBand and on the soft device the first entry that is set is used", "[verbs]") {
  FakeDevice device;
  device.gids = {none, link_local, ipv4};
  device.link_layer = IBV_LINK_LAYER_INFINIBAND;
  device.lid = 7;
  Fake::get().reset(device);
  CHECK(prepare({}).value().endpoint().gid == link_local);

  device.is_soft = true;
  Fake::get().reset(device);
  CHECK(index_used() == 1);
}

TEST_CASE("the best entry ends the reading of a long table", "[verbs]") {
  std::vector<GidBytes> gids(256, none);
  gids[2] = ipv4;
  set_table(gids);
  auto const before_gids = 4 + 1 + 1 + 1;  // list, open, two queries; domain, queue, port

  static_cast<void>(prepare({}).value());

  CHECK(Fake::get().calls == before_gids + 3 + 2);  // and the queue pair, to INIT
}

TEST_CASE("an entry is chosen by its index", "[verbs]") {
  set_table({link_local, ipv4, ipv4}, {v2, v2, v1});

  CHECK(index_used() == 1);
  Fake::get().modified.clear();
  CHECK(index_used({.index = 2}) == 2);
  auto const endpoint = prepare({.index = 2}).value().endpoint();
  CHECK(endpoint.gid == ipv4);
  CHECK(endpoint.gid_type == GidType::roce_v1);
}

TEST_CASE("an entry is chosen by its address, of RoCE v2 if there are two", "[verbs]") {
  set_table({link_local, ipv4, ipv4, global}, {v2, v1, v2, v2});

  CHECK(prepare({.address = "10.0.0.1"}).value().endpoint().gid_type == GidType::roce_v2);
  CHECK(index_used({.address = "10.0.0.1"}) == 2);
  Fake::get().modified.clear();
  CHECK(index_used({.address = "::ffff:10.0.0.1"}) == 2);
  Fake::get().modified.clear();
  CHECK(index_used({.address = "2001:db8:0::1"}) == 3);
}

TEST_CASE("an entry is chosen by its network, the best of those that are in it", "[verbs]") {
  GidBytes const vlan{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 129, 0, 1};
  set_table({ipv4, vlan, vlan, global}, {v2, v1, v2, v2});
  auto const index_in = [](std::string network) {
    Fake::get().modified.clear();
    return index_used({.network = std::move(network)});
  };
  CHECK(index_in("10.129.0.0/16") == 2);
  CHECK(index_in("10.128.0.0/9") == 2);  // 129 has its first bit set, 0 does not
  CHECK(index_in("10.0.0.0/9") == 0);
  CHECK(index_in("10.129.7.7/16") == 2);
  CHECK(index_in("10.129.0.1/32") == 2);
  CHECK(index_in("0.0.0.0/0") == 0);
  CHECK(index_in("2001:db8::/32") == 3);
  CHECK(index_in("::/0") == 0);
}

TEST_CASE("an IPv4 address of one link is no best address", "[verbs]") {
  GidBytes const self_given{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 3, 4};
  set_table({self_given, link_local, global});
  CHECK(index_used() == 2);
  set_table({link_local, self_given, ipv4});
  CHECK(index_used() == 2);
  set_table({self_given, link_local});
  CHECK(index_used() == 0);
}

TEST_CASE("the builder's gid_index(), gid_address() and gid_network() reach the queue pair",
          "[verbs]") {
  set_table({ipv4, global});
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto const builder = channel_builder().protection_domain(domain);

  CHECK(builder.build().value().endpoint().gid == ipv4);
  CHECK(builder.gid_index(1).build().value().endpoint().gid == global);
  CHECK(builder.gid_address("2001:db8::1").build().value().endpoint().gid == global);
  CHECK(builder.gid_network("2001::/16").build().value().endpoint().gid == global);
}

TEST_CASE("a choice that the port does not have is refused with what it has", "[verbs]") {
  set_table({ipv4, none, link_local}, {v2, v2, v1});
  std::string const present =
      "fake0 port 1 has 0: 10.0.0.1 (RoCE v2), 2: fe80::200:0:0:1 (RoCE v1). Choose one of these";

  check_refused({.index = 3}, Errc::not_found, "gid_index 3 is beyond the table of 3 entries");
  check_refused({.index = 0xffff'ffff}, Errc::not_found, present);
  check_refused({.index = 1}, Errc::not_found, "gid_index 1 is an empty entry; " + present);
  check_refused({.address = "10.0.0.2"}, Errc::not_found,
                "gid_address 10.0.0.2 is no address of the port; " + present);
  check_refused({.address = "fe80::1%eth0"}, Errc::invalid_argument, "is no IP address");
  check_refused({.address = "host.example"}, Errc::invalid_argument, "\"host.example\" is no");
  check_refused({.network = "10.1.0.0/16"}, Errc::not_found,
                "no address of the port is in gid_network 10.1.0.0/16; " + present);
  check_refused({.network = "10.0.0.1"}, Errc::invalid_argument, "\"10.0.0.1\" is no network");
  check_refused({.network = "10.0.0.0/33"}, Errc::invalid_argument, "is no network");
  check_refused({.index = 0, .address = "10.0.0.1"}, Errc::invalid_argument, "more than one is");
  check_refused({.address = "10.0.0.1", .network = "10.0.0.0/8"}, Errc::invalid_argument,
                "more than one is set; use one");
}

TEST_CASE("a long table is named in part", "[verbs]") {
  set_table(std::vector<GidBytes>(20, ipv4));

  check_refused({.index = 99}, Errc::not_found, "7: 10.0.0.1 (RoCE v2) and 12 more");
}

TEST_CASE("an entry that cannot be read is an error where it was asked for", "[verbs]") {
  set_table({ipv4});
  static_cast<void>(prepare({}).value());
  auto const at = Fake::get().calls - 2;  // before the queue pair and its INIT
  set_table({ipv4});
  Fake::get().fail_call = at;
  Fake::get().fail_errno = EIO;

  auto const prepared = prepare({.index = 0});

  CHECK(Fake::get().failed_call == "ibv_query_gid_ex");
  CHECK(prepared.error().os_error() == EIO);
}

TEST_CASE("an Ethernet port without a GID cannot be connected, and says so", "[verbs]") {
  set_table({none, none});
  check_refused({}, Errc::not_found, "fake0 port 1 has no GID among its 2; give its network");

  set_table({});
  check_refused({}, Errc::not_found, "no GID among its 0");
  check_refused({.index = 0}, Errc::not_found, "fake0 port 1 has none");
}

TEST_CASE("an InfiniBand port without a GID is reached by LID", "[verbs]") {
  FakeDevice device;
  device.link_layer = IBV_LINK_LAYER_INFINIBAND;
  device.lid = 7;
  device.gids = {none};
  Fake::get().reset(device);
  auto prepared = prepare({}).value();
  auto const self = prepared.endpoint();

  REQUIRE(std::move(prepared).handshake(self).has_value());

  CHECK_FALSE(self.has_gid());
  CHECK(Fake::get().modified.at(1).attributes.ah_attr.is_global == 0);
}

TEST_CASE("a choice of address is refused on iWARP, which has none to choose", "[verbs]") {
  FakeDevice device;
  device.transport = IBV_TRANSPORT_IWARP;
  Fake::get().reset(device);

  check_refused({.index = 0}, Errc::unsupported, "rdma_cm");
  check_refused({.address = "10.0.0.1"}, Errc::unsupported, "rdma_cm");
  CHECK(prepare({}).has_value());
}

TEST_CASE("on another port than the first everything is of that port", "[verbs]") {
  FakeDevice device;
  device.ports = {IBV_PORT_ACTIVE, IBV_PORT_ACTIVE};
  device.gids = {ipv4};
  device.gids_of_port_2 = {none, global};
  Fake::get().reset(device);
  auto prepared = prepare({}, 2).value();
  auto const self = prepared.endpoint();

  REQUIRE(std::move(prepared).handshake(self).has_value());

  CHECK(self.gid == global);
  auto const& steps = Fake::get().modified;
  CHECK(steps.at(0).attributes.port_num == 2);
  CHECK(steps.at(1).attributes.ah_attr.port_num == 2);
  CHECK(steps.at(1).attributes.ah_attr.grh.sgid_index == 1);
  CHECK(prepare({.address = "10.0.0.1"}, 2).error() == Errc::not_found);
}

TEST_CASE("an address is text both ways", "[verbs]") {
  CHECK(text_of(ipv4) == "10.0.0.1");
  CHECK(text_of(global) == "2001:db8::1");
  for (auto const& gid : {ipv4, global, link_local}) CHECK(verbs::gid_of_text(text_of(gid)) == gid);
  for (auto const* text : {"", "10.0.0", "10.0.0.256", "1:2", "fe80::1%1", "g::1", "10.0.0.1 "})
    CHECK_FALSE(verbs::gid_of_text(text));
}
