// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what lend says of a device and its ports is what the device says, in its own units.
// Method: a device with given codes on the fake provider; what they mean is in the man pages.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/context.hpp>
#include <verbs/device/device_list.hpp>

#include <net/if.h>

#include <cerrno>
#include <string>
#include <utility>

using namespace lend;
using namespace lend::test;

TEST_CASE("a GUID is read in network order, closed and open, and names its maker", "[verbs]") {
  FakeDevice device;
  device.guid = 0x0002'c903'0012'3456;
  Fake::get().reset(device);
  auto const fake = verbs::devices_of(fake_provider()).value().front();

  CHECK(text_of(fake.guid()) == "0002:c903:0012:3456");
  CHECK(fake.guid().maker() == 0x0002c9);
  CHECK(fake.open().value().attributes().guid == fake.guid());
}

TEST_CASE("a device has the kernel's number, or none", "[verbs]") {
  FakeDevice device;
  device.kernel_index = 7;
  Fake::get().reset(device);
  CHECK(verbs::devices_of(fake_provider()).value().front().kernel_index() == 7u);

  Fake::get().reset();
  CHECK_FALSE(verbs::devices_of(fake_provider()).value().front().kernel_index());
}

TEST_CASE("a firmware name that fills its field ends there", "[verbs]") {
  FakeDevice device;
  device.firmware = std::string(64, '7');
  Fake::get().reset(device);

  CHECK(open_fake().value().attributes().firmware == device.firmware);
}

TEST_CASE("a port's width and speed are lanes and megabits, unknown ones 0", "[verbs]") {
  auto const megabits = [](unsigned width, unsigned speed) {
    FakeDevice device;
    device.active_width = static_cast<std::uint8_t>(width);
    device.active_speed = static_cast<std::uint8_t>(speed);
    Fake::get().reset(device);
    return open_fake().value().port().megabits();
  };

  CHECK(megabits(1, 1) == 2'500);
  CHECK(megabits(2, 2) == 20'000);
  CHECK(megabits(2, 4) == 40'000);
  CHECK(megabits(2, 16) == 56'000);
  CHECK(megabits(2, 32) == 100'000);
  CHECK(megabits(4, 64) == 400'000);
  CHECK(megabits(8, 128) == 1'200'000);
  CHECK(megabits(16, 8) == 20'000);
  CHECK(megabits(3, 32) == 0);
  CHECK(megabits(2, 3) == 0);
}

TEST_CASE("a port says what its link is doing, and an unknown state is unknown", "[verbs]") {
  auto const state = [](unsigned code) {
    FakeDevice device;
    device.physical_state = static_cast<std::uint8_t>(code);
    Fake::get().reset(device);
    return open_fake().value().port().physical_state;
  };

  CHECK(name_of(state(2)) == "polling");
  CHECK(name_of(state(5)) == "link up");
  CHECK(state(7) == PhysicalState::test);
  CHECK(state(8) == PhysicalState::unknown);
  CHECK(name_of(state(0)) == "unknown");
}

TEST_CASE("a port is asked for its present state, whichever it is", "[verbs]") {
  FakeDevice device;
  device.ports = {IBV_PORT_ACTIVE, IBV_PORT_DOWN};
  device.lid = 7;
  device.subnet_manager_lid = 3;
  Fake::get().reset(device);
  auto const context = open_fake().value();
  CHECK(context.query_port().value().number == 1);
  CHECK(context.query_port(2).value().state == PortState::down);
  CHECK(context.query_port().value().lid == 7);
  CHECK(context.query_port().value().subnet_manager_lid == 3);

  Fake::get().device.ports[0] = IBV_PORT_ARMED;
  CHECK(context.query_port().value().state == PortState::armed);
  CHECK(context.port().state == PortState::active);

  auto const third = context.query_port(3);
  CHECK(third.error() == Errc::not_found);
  CHECK(third.error().message() == "fake0 has no port 3; its ports are 1 to 2");
}

TEST_CASE("a port has its partition keys in host order, or the error of reading them", "[verbs]") {
  FakeDevice device;
  device.partition_keys = {0xffff, 0x8012, 0};
  Fake::get().reset(device);
  auto const context = open_fake().value();
  CHECK(context.partition_keys().value() == device.partition_keys);

  Fake::get().fail_after(2, EIO);
  CHECK(context.partition_keys().error().os_error() == EIO);
  CHECK(Fake::get().failed_call == "ibv_query_pkey");
}

TEST_CASE("a GID names its network interface, or none", "[verbs]") {
  FakeDevice device;
  device.network_interface = ::if_nametoindex("lo");
  Fake::get().reset(device);
  auto entry = open_fake().value().gids().value().front();
  CHECK(network_interface_of(entry) == (entry.network_interface != 0 ? "lo" : ""));

  entry.network_interface = 0;
  CHECK(network_interface_of(entry).empty());
  entry.network_interface = INT32_MAX;
  CHECK(network_interface_of(entry).empty());
}
