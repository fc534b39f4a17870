// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a device opens on the port that was meant, or says why it cannot.
// Method: devices and ports scripted on the fake provider.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <verbs/device/device_list.hpp>

#include <cerrno>
#include <optional>
#include <type_traits>
#include <utility>

using namespace lend;
using namespace lend::test;
using lend::verbs::devices_of;

TEST_CASE("a kernel without RDMA has no devices; any other failure is an error", "[verbs]") {
  FakeDevice device;
  device.list_errno = ENOSYS;
  Fake::get().reset(device);
  CHECK(devices_of(fake_provider()).value().empty());

  device.list_errno = EMFILE;
  Fake::get().reset(device);
  CHECK(devices_of(fake_provider()).error().os_error() == EMFILE);
}

TEST_CASE("a device keeps the list it came from until the last is gone", "[verbs]") {
  FakeDevice device;
  device.devices = 3;
  Fake::get().reset(device);
  {
    std::optional<Device> last;
    {
      auto const devices = devices_of(fake_provider()).value();
      REQUIRE(devices.size() == 3);
      CHECK(devices[1].name() == "fake1");
      CHECK(devices[1].kind() == DeviceKind::card);
      last = devices[2];
    }
    CHECK(Fake::get().live("list") == 1);
    CHECK(last->open().value().name() == "fake2");
  }
  CHECK(Fake::get().live() == 0);
}

TEST_CASE("a device, its context, domain and queue work on when they were moved from", "[verbs]") {
  static_assert(std::is_nothrow_move_constructible_v<Context>);
  static_assert(std::is_nothrow_move_constructible_v<ProtectionDomain>);
  static_assert(std::is_nothrow_move_constructible_v<CompletionQueue>);
  Fake::get().reset();
  auto device = devices_of(fake_provider()).value().front();
  auto const other_device = std::move(device);
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested.
  auto context = device.open().value();
  auto const other_context = std::move(context);
  auto domain = context.allocate_protection_domain().value();
  auto queue = CompletionQueue::create(context, 8).value();
  auto const other_domain = std::move(domain);
  auto const other_queue = std::move(queue);

  CHECK(device.name() == other_device.name());
  CHECK(context.name() == other_context.name());
  CHECK(context.gids().has_value());
  CHECK(domain.native() == other_domain.native());
  CHECK(domain.allocate(64).has_value());
  CHECK(queue.native() == other_queue.native());
  CHECK(queue.depth() == 8);
  // NOLINTEND(bugprone-use-after-move)
}

TEST_CASE("with port 0 the first active port is opened", "[verbs]") {
  FakeDevice device;
  device.ports = {IBV_PORT_DOWN, IBV_PORT_ACTIVE, IBV_PORT_ACTIVE};
  Fake::get().reset(device);
  auto const fake = devices_of(fake_provider()).value().front();

  CHECK(fake.open().value().port().number == 2);
  CHECK(fake.open(3).value().port().number == 3);
  CHECK(fake.open(2).value().port().active_mtu_bytes == 4096);
  CHECK(fake.open(2).value().limits().work_requests_max == 1024);
}

TEST_CASE("no usable port is an error with the states", "[verbs]") {
  FakeDevice device;
  device.ports = {IBV_PORT_DOWN, IBV_PORT_INIT};
  Fake::get().reset(device);
  auto const fake = devices_of(fake_provider()).value().front();
  auto const check = [&](std::uint8_t port, std::string_view text) {
    auto const opened = fake.open(port);
    REQUIRE(opened.has_error());
    INFO(opened.error().message());
    CHECK(opened.error() == Errc::not_found);
    CHECK(opened.error().message().find(text) != std::string::npos);
    CHECK(Fake::get().live("context") == 0);
  };

  check(0, "port 1 is DOWN, port 2 is INIT");
  check(1, "port 1 is DOWN");
  check(3, "no port 3; its ports are 1 to 2");
  check(255, "no port 255");
}

TEST_CASE("a port with an MTU that is none is refused", "[verbs]") {
  FakeDevice device;
  device.mtu = ibv_mtu{};
  Fake::get().reset(device);

  CHECK(open_fake().error() == Errc::unsupported);
  CHECK(Fake::get().live() == 0);
}

TEST_CASE("a device with 255 ports, none active, is asked for each once", "[verbs]") {
  FakeDevice device;
  device.ports.assign(255, IBV_PORT_DOWN);
  Fake::get().reset(device);

  CHECK(open_fake().error() == Errc::not_found);
  CHECK(Fake::get().calls == 3 + 255);
}
