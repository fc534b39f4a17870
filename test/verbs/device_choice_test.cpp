// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a program gets the kind of device that it chose, and by default one that it can connect.
// Method: hosts with scripted devices on the fake provider, beside the soft device.
#include <open_device.hpp>
#include <soft/device/provider.hpp>
#include <verbs/device/built_with.hpp>
#include <verbs/device/device_list.hpp>

#include <cerrno>

#include "support/catch.hpp"
#include "support/device_environment.hpp"
#include "verbs/fake_provider.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr bool built_with_cm = LEND_BUILT_WITH_CM != 0;

constexpr FakeKind card{.vendor = 0x02c9};
constexpr FakeKind iwarp_card{.vendor = 0x1425, .transport = IBV_TRANSPORT_IWARP};
constexpr FakeKind soft_roce{.vendor = 0xff'ffff};
constexpr FakeKind old_soft_roce{.vendor = 0};
constexpr FakeKind soft_iwarp{.vendor = 0x62'6d74, .transport = IBV_TRANSPORT_IWARP};

/// A host with these devices fake0, fake1, … and the soft one.
HostDevices host_with(std::vector<FakeKind> kinds) {
  FakeDevice device;
  device.devices = static_cast<int>(kinds.size());
  device.kinds = std::move(kinds);
  Fake::get().reset(device);
  return {verbs::devices_of(fake_provider()).value(), verbs::devices_of(soft::provider()).value()};
}

std::string opened_of(std::vector<FakeKind> kinds, DeviceChoice const& choice) {
  auto const opened = open_device(host_with(std::move(kinds)), choice);
  return opened.has_value() ? opened.value().name() : std::string{name_of(opened.error().code())};
}

Error error_of_choice(std::vector<FakeKind> kinds, DeviceChoice const& choice) {
  auto const opened = open_device(host_with(std::move(kinds)), choice);
  REQUIRE(opened.has_error());
  return opened.error();
}

}  // namespace

TEST_CASE("the kind of a device is known before and after it is opened", "[verbs]") {
  auto const [vendor, kind] = GENERATE(table<FakeKind, DeviceKind>({
      {card, DeviceKind::card},
      {iwarp_card, DeviceKind::card},
      {soft_roce, DeviceKind::software_rdma},
      {old_soft_roce, DeviceKind::software_rdma},
      {soft_iwarp, DeviceKind::software_rdma},
  }));

  auto const listed = list_devices(host_with({vendor})).front();

  CHECK(listed.kind() == kind);
  CHECK(listed.open().value().kind() == kind);
}

TEST_CASE("devices are listed cards first, iWARP last of each kind, then the soft one", "[verbs]") {
  auto const devices = list_devices(host_with({soft_iwarp, soft_roce, iwarp_card, card}));

  REQUIRE(devices.size() == 5);
  CHECK(devices[0].name() == "fake3");
  CHECK(devices[1].name() == "fake2");
  CHECK(devices[2].name() == "fake1");
  CHECK(devices[3].name() == "fake0");
  CHECK(devices[4].kind() == DeviceKind::soft);
}

TEST_CASE("the default choice is a card, else SoftRoCE, else the soft device", "[verbs]") {
  DeviceEnvironment const environment{nullptr};
  auto const choice = DeviceChoice::either();

  CHECK(opened_of({soft_roce, card}, choice) == "fake1");
  CHECK(opened_of({soft_iwarp, soft_roce}, choice) == "fake1");
  CHECK(opened_of({iwarp_card, soft_roce}, choice) == "fake1");
  CHECK(opened_of({}, choice).starts_with("soft"));
}

TEST_CASE("the default choice takes no iWARP device, and says how to take one", "[verbs]") {
  DeviceEnvironment const environment{nullptr};

  auto const error = error_of_choice({iwarp_card, soft_iwarp}, DeviceChoice::either());

  CHECK(error == Errc::unsupported);
  CHECK_THAT(error.message(), Catch::Contains("iWARP") && Catch::Contains("cm_connect()") &&
                                  Catch::Contains("fake0 (card), fake1 (software RDMA)") &&
                                  Catch::Contains("LEND_DEVICE=soft"));
  CHECK(opened_of({soft_iwarp}, DeviceChoice::named("fake0")) == "fake0");
  DeviceEnvironment const by_name{"fake0"};
  CHECK(opened_of({soft_iwarp}, DeviceChoice::either()) == "fake0");
}

TEST_CASE("where a kind is chosen no other stands in", "[verbs]") {
  CHECK(opened_of({soft_roce, iwarp_card, card}, DeviceChoice::card()) == "fake2");
  CHECK(opened_of({soft_roce, iwarp_card}, DeviceChoice::card()) == "fake1");
  CHECK(opened_of({card, soft_iwarp, soft_roce}, DeviceChoice::software_rdma()) == "fake2");
  CHECK(opened_of({card, soft_roce}, DeviceChoice::soft()).starts_with("soft"));

  auto const no_card = error_of_choice({soft_roce}, DeviceChoice::card());
  CHECK(no_card == Errc::not_found);
  CHECK_THAT(no_card.message(), Catch::StartsWith("no RDMA card on this host; there is: fake0 "
                                                  "(software RDMA), soft"));
  auto const no_software = error_of_choice({card}, DeviceChoice::software_rdma());
  CHECK_THAT(no_software.message(), Catch::StartsWith("no software RDMA device on this host"));
}

TEST_CASE("LEND_DEVICE chooses a kind", "[verbs]") {
  auto const with = [](char const* value) {
    DeviceEnvironment const environment{value};
    return opened_of({soft_roce, card}, DeviceChoice::either());
  };

  CHECK(with("card") == "fake1");
  CHECK(with("software") == "fake0");
  CHECK(with("soft").starts_with("soft"));
  CHECK(with("fake0") == "fake0");
}

TEST_CASE("a device that is chosen by its name is the only one that is opened", "[verbs]") {
  auto devices = host_with({card, card, card});
  auto const before = Fake::get().calls;

  CHECK(open_device(std::move(devices), DeviceChoice::named("fake1")).has_value());

  CHECK(Fake::get().calls - before == 5);  // open, query; open, query, query of the port
}

TEST_CASE("a device that cannot be opened is an error, not another device", "[verbs]") {
  DeviceEnvironment const environment{nullptr};
  auto devices = host_with({soft_roce});
  Fake::get().device.open_errno = EACCES;

  auto const opened = open_device(std::move(devices), DeviceChoice::either());

  REQUIRE(opened.has_error());
  CHECK(opened.error() == Errc::denied);
}

TEST_CASE("nothing stays open of devices that were asked for their kind", "[verbs]") {
  auto const devices = list_devices(host_with({card, soft_roce, soft_iwarp}));

  CHECK(Fake::get().live("context") == 0);
  CHECK(Fake::get().violations.empty());
}

TEST_CASE("rdma_cm connects an RDMA device where lend was built with it, never the soft one",
          "[verbs]") {
  auto const devices = host_with({card});

  CHECK(devices.rdma_core.front().open().value().capabilities().rdma_cm == built_with_cm);
  CHECK_FALSE(devices.soft.front().open().value().capabilities().rdma_cm);
}
