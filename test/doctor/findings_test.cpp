// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each check finds what its page says, and predicts what lend does there.
// Method: trees written by hand, beside the fake provider; the same call of lend is made.
#include <doctor/host.hpp>

#include <string>
#include <tuple>

#include "doctor/tree.hpp"
#include "support/device_environment.hpp"
#include "support/stories.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// A host with a card, and a program that leaves the choice of device open.
struct HostWithCard {
  HostWithCard() {
    Fake::get().reset();
    tree.add_card();
    tree.add_process();
  }
  [[nodiscard]] Finding of(std::string_view id, std::string_view subject = "fake0") const {
    return finding_of(tree.host(), id, subject);
  }
  /// Compares the whole finding with its story.
  void tells(std::string const& story, std::string_view id,
             std::string_view subject = "fake0") const {
    check_story("a finding: " + story, story_of(text_of(of(id, subject))));
  }

  std::string port = "/sys/class/infiniband/fake0/ports/1";
  DeviceEnvironment environment{nullptr};
  Tree tree{};
};

}  // namespace

TEST_CASE("on a host with a good card no check fails or warns", "[doctor]") {
  HostWithCard const card;

  for (auto const& finding : doctor::examine(card.tree.host())) {
    INFO(text_of(finding));
    CHECK((finding.level == ok || finding.level == skipped));
    CHECK((finding.level != skipped || finding.seen.empty()));
  }
  CHECK(has(card.of("open", "open_device()").seen, "takes fake0 (card), port 1"));
  auto const use = doctor::examine(card.tree.host()).back();
  CHECK(use.id == "use");
  CHECK(has(use.seen, "listen() and connect() on fake0, soft0"));
}

TEST_CASE("on a host without RDMA the checks of devices are skipped, with the reason", "[doctor]") {
  FakeDevice none;
  none.devices = 0;
  Fake::get().reset(none);
  DeviceEnvironment const environment{nullptr};
  Tree const tree;
  tree.add_process();

  for (auto const& finding : doctor::examine(tree.host())) {
    INFO(text_of(finding));
    CHECK(finding.level != fail);
    CHECK((finding.level != skipped || !finding.why.empty()));
  }
  CHECK(finding_of(tree.host(), "device", "this host").level == skipped);
  CHECK(has(finding_of(tree.host(), "open", "open_device()").seen, "takes soft0 (soft), port 1"));
}

TEST_CASE("a device without its file, module or driver is found, and how to mend it", "[doctor]") {
  HostWithCard const card;

  SECTION("the file") {
    card.tree.remove("/dev/infiniband");
    CHECK(card.of("device.files").level == fail);
    CHECK(card.of("device.denied").level == skipped);
    card.tree.write("/.dockerenv", "");
    CHECK(has(card.of("device.files").mend, "docker run --device"));
    card.tells("no device file in a container", "device.files");
  }
  SECTION("the modules") {
    card.tree.remove("/sys/module");
    card.tree.remove("/sys/class/infiniband_verbs");
    CHECK(card.of("modules", "ib_uverbs").mend == "sudo modprobe ib_uverbs");
    CHECK(card.of("modules", "rdma_ucm").level == warn);
    CHECK(card.of("device.files").level == skipped);
  }
  SECTION("the driver") {
    card.tree.add_card("other0");
    card.tree.write("/sys/class/infiniband_verbs/uverbs1/ibdev", "other0");
    card.tree.write("/sys/class/infiniband_verbs/uverbs0/ibdev", "fake0");
    CHECK(card.of("device.driver", "other0").level == fail);
    card.tells("no driver library", "device.driver", "other0");
    CHECK(card.of("device.driver").level == ok);
    auto host = card.tree.host();
    host.libibverbs_obstacle = "libibverbs.so.1: no such file";
    CHECK(has(finding_of(host, "device.driver", "libibverbs").seen, "no such file"));
  }
}

TEST_CASE("open and use fail as open_device() does, with its message", "[doctor]") {
  HostWithCard const card;
  FakeDevice down;
  SECTION("a port that is down") {
    down.ports = {IBV_PORT_DOWN};
  }
  SECTION("a device that does not open") {
    down.open_errno = EACCES;
  }
  Fake::get().reset(down);
  auto const host = card.tree.host();

  auto const opened = host.open(DeviceChoice::either());

  REQUIRE(opened.has_error());
  auto const finding = finding_of(host, "open", "open_device()");
  CHECK(finding.level == fail);
  CHECK(finding.seen == opened.error().message());
  CHECK(has(finding.mend, "LEND_DEVICE=soft"));
  CHECK_FALSE(has(doctor::examine(host).back().seen, "fake0"));
}

TEST_CASE("a port that is not active fails, or warns beside one that is", "[doctor]") {
  HostWithCard const card;

  card.tree.write(card.port + "/state", "1: DOWN");
  CHECK(card.of("port", "fake0/1").level == fail);
  CHECK(card.of("port", "fake0/1").mend == "sudo ip link set dev eth7 up");
  card.tells("a port that is down", "port", "fake0/1");
  card.tree.write(card.port + "/state", "2: INIT");
  CHECK(has(card.of("port", "fake0/1").why, "subnet manager"));
  CHECK(card.of("gid", "this host").level == skipped);
  card.tree.write("/sys/class/infiniband/fake0/ports/2/state", "4: ACTIVE");
  CHECK(card.of("port", "fake0/1").level == warn);
}

TEST_CASE("the address that a queue pair takes is named, and one that is bad for it", "[doctor]") {
  HostWithCard const card;

  CHECK(has(card.of("gid", "fake0/1").seen, "takes index 1 of 1: 10.77.0.1 (RoCE v2), 0: fe80"));
  SECTION("link-local only") {
    card.tree.remove(card.port + "/gids/1");
    CHECK(card.of("gid", "fake0/1").level == warn);
    CHECK(has(card.of("gid", "fake0/1").mend, "dev eth7"));
    card.tells("no address but a link-local one", "gid", "fake0/1");
  }
  SECTION("RoCE v1 only") {
    for (auto const* index : {"0", "1"})
      card.tree.write(card.port + "/gid_attrs/types/" + index, "IB/RoCE v1");
    CHECK(has(card.of("gid", "fake0/1").why, "RoCE v1"));
  }
  SECTION("none") {
    card.tree.remove(card.port + "/gids");
    CHECK(card.of("gid", "fake0/1").level == fail);
  }
}

TEST_CASE("partitions, MTU, NUMA node and link are compared with what they could be", "[doctor]") {
  HostWithCard const card;

  card.tree.write("/sys/class/net/eth7/mtu", "1500");
  CHECK(card.of("mtu", "fake0/1").mend == "sudo ip link set dev eth7 mtu 4200");
  card.tells("a small MTU", "mtu", "fake0/1");
  card.tree.write("/sys/devices/system/node/node0/cpulist", "0-1,4");
  CHECK(card.of("numa").level == warn);
  card.tells("a card on another node", "numa");
  card.tree.write("/sys/class/infiniband/fake0/device/numa_node", "-1");
  CHECK(card.of("numa").level == skipped);
  auto const link = std::string{"/sys/class/infiniband/fake0/device/"};
  CHECK(card.of("link").level == skipped);
  for (auto const* which : {"current", "max"}) {
    card.tree.write(link + which + "_link_speed", "16.0 GT/s PCIe");
    card.tree.write(link + which + "_link_width", "16");
  }
  CHECK(card.of("link").seen == "x16 at 16.0 GT/s PCIe");
  card.tree.write(link + "current_link_width", "8");
  CHECK(card.of("link").level == warn);
  card.tells("few lanes", "link");
  card.tree.write(link + "current_link_width", "16");
  card.tree.write(link + "current_link_speed", "2.5 GT/s PCIe");
  CHECK(card.of("link").level == warn);
  card.tree.write(link + "max_link_speed", "Unknown");
  CHECK(card.of("link").level == skipped);
  card.tree.write(card.port + "/link_layer", "InfiniBand");
  card.tree.write(card.port + "/lid", "0x3");
  card.tree.write(card.port + "/pkeys/0", "0x7fff");
  CHECK(card.of("pkey", "fake0/1").level == warn);
  card.tree.write(card.port + "/pkeys/0", "0xffff");
  CHECK(card.of("pkey", "fake0/1").level == ok);
}

TEST_CASE("a device or interface of another network namespace is found", "[doctor]") {
  HostWithCard const card;

  CHECK(card.of("namespace", "this host").level == ok);
  card.tree.write("/proc/self/net/dev", "    lo: 0 0\n eth70: 0 0");
  CHECK(card.of("namespace", "fake0/1").level == warn);
  card.tells("an interface of another network namespace", "namespace", "fake0/1");
  card.tree.add_process();
  card.tree.write("/sys/module/ib_core/parameters/netns_mode", "N");
  CHECK(card.of("namespace", "this host").level == ok);
  card.tree.remove("/sys/class/infiniband/fake0");
  CHECK(card.of("namespace").level == fail);
  card.tells("a device of another network namespace", "namespace");
  card.tree.add_card("other0");
  card.tree.write("/sys/module/ib_core/parameters/netns_mode", "N");
  card.tree.write("/sys/class/infiniband_verbs/uverbs1/ibdev", "fake0");
  CHECK(card.of("namespace").level == ok);
  CHECK(card.of("namespace", "this host").level == ok);
}

TEST_CASE("error counters are bad where they grow, and only told where they are above 0",
          "[doctor]") {
  HostWithCard const card;
  auto host = card.tree.host();
  auto const found = [&] { return finding_of(host, "counters", "fake0/1"); };
  auto const count = [&](char const* text) {
    card.tree.write(card.port + "/hw_counters/rcvd_seq_err", text);
  };

  CHECK(found().level == ok);
  CHECK(found().seen == "since the driver was loaded: symbol_error 7, rcvd_seq_err 4");
  host.pause = [] {};
  CHECK(found().level == ok);
  CHECK(has(found().seen, "none grew in 250 ms; since the driver was loaded: symbol_error 7"));
  host.pause = [&] { count("6"); };
  auto const grown = found();
  CHECK(grown.level == warn);
  check_story("a finding: error counters that grow", story_of(text_of(grown)));
  host.pause = [&] { count("0"); };  // somebody resets them
  CHECK(found().level == ok);
  card.tree.remove(card.port + "/counters");
  CHECK(has(found().seen, "all are 0"));
  card.tree.remove(card.port + "/hw_counters");
  CHECK(found().level == skipped);
}

TEST_CASE("a port without LID, or whose subnet requires global routes, takes a GID", "[doctor]") {
  HostWithCard const card;
  FakeDevice device;
  device.link_layer = IBV_LINK_LAYER_INFINIBAND;
  CHECK(card.of("route", "fake0/1").level == skipped);
  card.tree.write(card.port + "/link_layer", "InfiniBand");
  card.tree.write(card.port + "/lid", "0x3");
  device.lid = 3;

  SECTION("neither") {
    Fake::get().reset(device);
    CHECK(card.of("route", "fake0/1").level == ok);
    card.tree.remove(card.port + "/gids");
    CHECK(card.of("route", "fake0/1").level == ok);
  }
  SECTION("global routes") {
    device.port_flags = IBV_QPF_GRH_REQUIRED;
    Fake::get().reset(device);
    CHECK(has(card.of("route", "fake0/1").seen, "LID 3, and its subnet requires global routes"));
    CHECK(card.of("route", "fake0/1").level == ok);
    card.tree.remove(card.port + "/gids");
    CHECK(card.of("route", "fake0/1").level == fail);
  }
  SECTION("no LID") {
    device.lid = 0;
    Fake::get().reset(device);
    card.tree.write(card.port + "/lid", "0x0");
    CHECK(card.of("route", "fake0/1").level == warn);
    card.tells("a port without LID", "route", "fake0/1");
    card.tree.remove(card.port + "/gids");
    CHECK(card.of("route", "fake0/1").level == fail);
    device.gids = {};
    Fake::get().reset(device);
    auto const domain = card.tree.host().open(DeviceChoice::card()).value();
    auto prepared = prepare_channel(domain.allocate_protection_domain().value(), {}).value();
    auto const itself = prepared.endpoint();
    CHECK(std::move(prepared).handshake(itself).has_error());
  }
}

TEST_CASE("memory that fork() takes from devices is found", "[doctor]") {
  HostWithCard const card;
  auto host = card.tree.host();
  auto const found = [&] { return finding_of(host, "fork", "this process"); };

  CHECK(found().level == ok);
  host.forks = doctor::ForkSafety::by_program;
  CHECK(found().level == ok);
  host.forks = doctor::ForkSafety::none;
  CHECK(found().level == warn);
  check_story("a finding: memory that fork() takes from devices", story_of(text_of(found())));
  host.forks = std::nullopt;
  CHECK(found().level == skipped);
}

TEST_CASE("variables that lend does not have, and values that are none, are found", "[doctor]") {
  HostWithCard const card;
  EnvironmentVariable const device{"LEND_DEVICE", "card"}, good{"LEND_GID", "10.1.0.0/16"};
  EnvironmentVariable const seed{"LEND_TEST_SEED", nullptr};
  CHECK(has(card.of("environment", "this process").seen, "sets LEND_DEVICE, LEND_GID"));

  EnvironmentVariable const bad{"LEND_TRAFFIC_CLASS", "26x"}, other{"LEND_TRAFIC_CLASS", "26"};
  CHECK(card.of("environment", "LEND_TRAFFIC_CLASS").level == fail);
  CHECK(has(card.of("environment", "LEND_TRAFFIC_CLASS").seen,
            "LEND_TRAFFIC_CLASS is \"26x\"; it must be 0 to 255"));
  CHECK(card.of("environment", "LEND_TRAFIC_CLASS").level == warn);
  CHECK_FALSE(has(text_of(card.of("environment", "LEND_TRAFIC_CLASS")), "26"));
  for (auto const& [name, value, values] :
       {std::tuple{"LEND_METRICS", "yes", "0, 1, or a directory"},
        {"LEND_DESK_SERVED", "on", "0 or 1"},
        {"LEND_SOFT_CMA", "0", "never"}}) {
    EnvironmentVariable const choice{name, value};
    CHECK(has(card.of("environment", name).seen,
              std::string{name} + " is \"" + value + "\"; it must be " + values));
  }
}

TEST_CASE("limits of a process and of its cgroups are compared with what lend needs", "[doctor]") {
  HostWithCard const card;
  auto const cgroup = std::string{"/sys/fs/cgroup"};
  auto const process = "this process";

  card.tree.add_process("4194304", "100");
  CHECK(card.of("memlock", process).level == warn);
  CHECK(has(card.of("memlock", process).why, "more than 3 MiB"));
  CHECK(card.of("memlock", process).mend == "ulimit -l unlimited");
  card.tells("little memory may be locked", "memlock", process);
  CHECK(card.of("descriptors", process).mend == "ulimit -n 4096");
  card.tree.write("/proc/self/cgroup", "0::/a/b");
  CHECK(card.of("cgroup", process).level == skipped);
  card.tree.write(cgroup + "/cgroup.controllers", "rdma memory");
  CHECK(card.of("cgroup", process).level == ok);
  card.tree.write(cgroup + "/a/rdma.max", "fake0 hca_handle=0 hca_object=max");
  card.tree.write(cgroup + "/a/b/memory.max", "67108864");
  card.tree.write(cgroup + "/a/b/memory.current", "4096");
  CHECK(card.of("cgroup").level == fail);
  CHECK(card.of("cgroup", process).level == warn);
  card.tree.remove(cgroup + "/a/b/memory.max");
  card.tree.write(cgroup + "/a/pids.max", "max");
  card.tree.write(cgroup + "/a/b/pids.max", "20");
  card.tree.write(cgroup + "/a/b/pids.current", "4");
  CHECK(card.of("cgroup", process).level == ok);
  card.tree.write(cgroup + "/a/b/pids.current", "5");
  CHECK(card.of("cgroup", process).level == warn);
  CHECK(has(card.of("cgroup", process).seen, "/a/b/pids.max: 20 processes and threads"));
}

TEST_CASE("a tree that is damaged or empty stops no check", "[doctor]") {
  Fake::get().reset();
  Tree const tree;

  CHECK(doctor::examine(tree.host()).size() >= doctor::checks().size());
  tree.add_card();
  tree.add_process("x", "");
  tree.write("/proc/self/status",
             "Cpus_allowed_list:\t18446744073709551615,0-18446744073709551615");
  tree.write("/sys/class/infiniband/fake0/ports/1/gids/1", "no address");
  tree.write("/sys/class/infiniband/fake0/device/numa_node", std::string(70'000, '9'));
  tree.write("/proc/self/cgroup", "0::a\x1b[31m");
  tree.write("/sys/fs/cgroup/cgroup.controllers", "");
  tree.write("/sys/fs/cgroup/memory.max", "1000");
  CHECK(finding_of(tree.host(), "memlock", "this process").level == skipped);
  for (auto const& finding : doctor::examine(tree.host()))
    CHECK_FALSE(has(text_of(finding), "\x1b"));
}

TEST_CASE("a finding's text has what, why and how to mend it, without control characters",
          "[doctor]") {
  Finding const finding{"memlock",  fail,  "this\x07process", "little", "it fails",
                        "one\ntwo", "page"};

  CHECK(text_of(finding) ==
        "fail     memlock, this?process: little\n"
        "         why:  it fails\n"
        "         mend: one\n"
        "               two\n");
}
