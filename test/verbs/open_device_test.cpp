// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the device that was meant is opened, or the error says what there is; nothing leaks.
// Method: every choice, with and without LEND_DEVICE; descriptors counted around every error.
#include "support/catch.hpp"
#include "support/device_environment.hpp"
#include "support/few_descriptors.hpp"

#include <lend/open_device.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

using namespace lend;

namespace {

bool has_kind(DeviceKind kind) {
  auto const devices = list_devices().value();
  return std::any_of(devices.begin(), devices.end(),
                     [&](Device const& device) { return device.kind() == kind; });
}

std::string soft_name() {
  return list_devices().value().back().name();
}

std::ptrdiff_t descriptors() {
  using Directory = std::filesystem::directory_iterator;
  return std::distance(Directory{"/proc/self/fd"}, Directory{});
}

void check_not_found(Result<Context> const& opened, std::string_view text) {
  REQUIRE(opened.has_error());
  INFO(opened.error().message());
  CHECK(opened.error() == Errc::not_found);
  CHECK(opened.error().message().find(text) != std::string::npos);
}

}  // namespace

TEST_CASE("the soft device is always there, and last", "[verbs]") {
  auto const devices = list_devices();

  REQUIRE(devices.has_value());
  REQUIRE_FALSE(devices.value().empty());
  CHECK(devices.value().back().kind() == DeviceKind::soft);
}

TEST_CASE("a device opens by kind and by name", "[verbs]") {
  test::DeviceEnvironment const environment{nullptr};

  CHECK(open_device(DeviceChoice::soft()).value().kind() == DeviceKind::soft);
  auto const named = open_device(DeviceChoice::named(soft_name())).value();
  CHECK(named.kind() == DeviceKind::soft);
  CHECK(named.name() == soft_name());
  bool const has_rdma = has_kind(DeviceKind::card) || has_kind(DeviceKind::software_rdma);
  auto const opened = open_device();
  if (opened.has_value()) CHECK((opened.value().kind() == DeviceKind::soft) == !has_rdma);
}

TEST_CASE("a name that no device has is an error that lists those there are", "[verbs]") {
  test::DeviceEnvironment const environment{nullptr};

  check_not_found(open_device(DeviceChoice::named("mlx5_77")), "no device named mlx5_77");
  check_not_found(open_device(DeviceChoice::named("mlx5_77")), soft_name() + " (soft)");
  auto choice = DeviceChoice::card();
  choice.name = soft_name();
  check_not_found(open_device(choice), "no device named " + soft_name());
}

TEST_CASE("a port that a device does not have is an error", "[verbs]") {
  test::DeviceEnvironment const environment{nullptr};

  check_not_found(open_device(DeviceChoice::named(soft_name(), 9)), "no port 9");
}

TEST_CASE("LEND_DEVICE decides for a choice that leaves everything open", "[verbs]") {
  {
    test::DeviceEnvironment const environment{"soft"};
    CHECK(open_device().value().kind() == DeviceKind::soft);
  }
  {
    test::DeviceEnvironment const environment{soft_name().c_str()};
    CHECK(open_device().value().name() == soft_name());
  }
  {
    test::DeviceEnvironment const environment{"nosuch0"};
    check_not_found(open_device(), "no device named nosuch0 (from LEND_DEVICE=nosuch0)");
  }
  {
    test::DeviceEnvironment const environment{""};
    CHECK(open_device().has_value());
  }
}

TEST_CASE("LEND_DEVICE does not overrule a choice that names a device or a kind", "[verbs]") {
  test::DeviceEnvironment const environment{"nosuch0"};

  CHECK(open_device(DeviceChoice::soft()).value().kind() == DeviceKind::soft);
  CHECK(open_device(DeviceChoice::named(soft_name())).has_value());
}

TEST_CASE("where a card or software RDMA is demanded nothing else stands in", "[verbs]") {
  if (!has_kind(DeviceKind::card)) {
    {
      test::DeviceEnvironment const environment{"soft"};
      check_not_found(open_device(DeviceChoice::card()), "no RDMA card on this host");
    }
    test::DeviceEnvironment const environment{"card"};
    check_not_found(open_device(), "(from LEND_DEVICE=card)");
  }
  if (!has_kind(DeviceKind::software_rdma)) {
    test::DeviceEnvironment const environment{"software"};
    check_not_found(open_device(), "no software RDMA device on this host (from LEND_DEVICE=");
    check_not_found(open_device(DeviceChoice::software_rdma()), soft_name() + " (soft)");
  }
}

TEST_CASE("an error repeats LEND_DEVICE without its control characters", "[verbs]") {
  test::DeviceEnvironment const environment{"\x1b[2Jmlx\n5"};

  check_not_found(open_device(), "no device named ?[2Jmlx?5 (from LEND_DEVICE=?[2Jmlx?5)");
}

TEST_CASE("whatever is refused or ends, no descriptor stays open", "[verbs]") {
  test::DeviceEnvironment const environment{nullptr};
  auto const provoke = [] {
    auto const context = open_device(DeviceChoice::soft()).value();
    auto const domain = context.allocate_protection_domain().value();
    auto const queue = CompletionQueue::create(context, 64).value();
    QueuePairOptions const options{.send_depth = 16, .receive_depth = 16};
    auto memory = domain.unsafe_allocate_exposed(100, RemoteAccess::read_write).value();
    CHECK(domain.allocate(0).has_error());
    CHECK(domain.allocate(SIZE_MAX / 4).has_error());
    CHECK(CompletionQueue::create(context, 0).has_error());
    CHECK(CompletionQueue::create(context, 0x7fff'ffff).has_error());
    CHECK(PreparedQueuePair::create(domain, queue, {.send_depth = 0}).has_error());
    CHECK(PreparedQueuePair::create(domain, queue, {.send_depth = 0x7fff'ffff}).has_error());
    auto foreign = PreparedQueuePair::create(domain, queue, options).value();
    auto stranger = foreign.endpoint();
    stranger.gid[15] ^= 0xff;
    CHECK(std::move(foreign).connect(stranger).error() == Errc::incompatible_peer);
    auto stale = PreparedQueuePair::create(domain, queue, options).value();
    auto const gone = PreparedQueuePair::create(domain, queue, options).value().endpoint();
    static_cast<void>(std::move(stale).connect(gone));  // may be refused now, or fail later
    auto prepared = PreparedQueuePair::create(domain, queue, options).value();
    auto const self = prepared.endpoint();
    CHECK(std::move(prepared).connect(self).has_value());
    check_not_found(open_device(DeviceChoice::named("nosuch0")), "nosuch0");
    check_not_found(open_device(DeviceChoice::named(soft_name(), 9)), "no port 9");
  };
  provoke();  // what a process opens once and keeps

  auto const before = descriptors();
  for (int i = 0; i < 20; ++i) provoke();

  CHECK(descriptors() == before);
}

TEST_CASE("a device that finds too few descriptors says which limit that is", "[verbs]") {
  static_cast<void>(open_device(DeviceChoice::soft()).value());  // it can be opened
  unsigned more = 0;
  for (; more < 20; ++more) {
    std::string limit;
    auto const opened = [&] {
      test::FewDescriptors const few{more};
      limit = test::FewDescriptors::words();
      return open_device(DeviceChoice::soft());
    }();
    if (opened.has_value()) break;
    INFO(opened.error().message());
    CHECK(opened.error() == Errc::exhausted);
    CHECK(opened.error().message().find(limit) != std::string::npos);
    CHECK(opened.error().message().find("ulimit -n") != std::string::npos);
    CHECK(opened.error().message().find("mounted") == std::string::npos);
  }
  CHECK(more > 3);
  CHECK(more < 20);
}

TEST_CASE("a device that finds the size of files limited says to what", "[verbs]") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit const little{1 << 20, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
  auto const opened = open_device(DeviceChoice::soft());
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);

  REQUIRE(opened.has_error());
  INFO(opened.error().message());
  CHECK(opened.error() == Errc::exhausted);
  CHECK(opened.error().message().find("RLIMIT_FSIZE is 1048576 bytes") != std::string::npos);
  CHECK(opened.error().message().find("ulimit -f") != std::string::npos);
}
