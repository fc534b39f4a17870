// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the doctor names a class of packets that lend does not take, and ports that Linux confuses.
// Method: hosts of one and of two RoCE ports, written by hand: classes of the driver and of
// rdma_cm, tables of routes as Linux net/ipv4/fib_trie.c writes them, and settings of ARP.
#include <string>

#include "doctor/tree.hpp"
#include "support/device_environment.hpp"
#include "support/stories.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// A host with the ports fake0/1 (eth7) and fake1/1 (eth8), in two networks.
struct TwoPorts {
  TwoPorts() {
    Fake::get().reset();
    tree.add_process();
    for (auto const* name : {"fake0", "fake1"}) tree.add_card(name);
    tree.write("/sys/class/infiniband/fake1/ports/1/gid_attrs/ndevs/1", "eth8");
    write_routes(own_networks);
    for (auto const* name : {"all", "eth7", "eth8"}) set(name, "0", "0");
  }
  /// Of "NAME NETWORK MASK" in the order of bytes of a PC, and a default route over eth7.
  void write_routes(std::string const& networks) const {
    std::string text =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT       "
        "\n"
        "eth7\t00000000\t01004D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0                        \n"
        "eth8\t00000000\t00000000\t0001\t0\t0\t9\t00000000\t0\t0\t0                        \n"
        "eth8\t07004D0A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0                        \n"
        "eth8\t00004D0A\t0100630A\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0                        \n";
    std::istringstream lines{networks};
    for (std::string name, network, mask; lines >> name >> network >> mask;)
      text += name + '\t' + network + "\t00000000\t0001\t0\t0\t100\t" + mask + "\t0\t0\t0      \n";
    tree.write("/proc/self/net/route", text);
  }
  void set(std::string const& name, char const* ignore, char const* announce,
           char const* reverse_filter = "0", char const* filter = "0") const {
    auto const folder = "/proc/sys/net/ipv4/conf/" + name;
    tree.write(folder + "/arp_ignore", ignore);
    tree.write(folder + "/arp_announce", announce);
    tree.write(folder + "/rp_filter", reverse_filter);
    tree.write(folder + "/arp_filter", filter);
  }
  [[nodiscard]] Finding subnet(std::string_view port = "fake0/1") const {
    return finding_of(tree.host(), "subnet", port);
  }
  [[nodiscard]] Finding packets(std::string_view port = "fake0/1") const {
    return finding_of(tree.host(), "class", port);
  }

  static constexpr char own_networks[] = "eth7 00004D0A 00FFFFFF eth8 00004E0A 00FFFFFF";
  static constexpr char one_network[] = "eth7 00004D0A 00FFFFFF eth8 00004D0A 00FFFFFF";
  std::string driver = "/sys/class/infiniband/fake0/tc/1/traffic_class";
  std::string rdma_cm = "/sys/kernel/config/rdma_cm/fake0/ports/1/default_roce_tos";
  DeviceEnvironment environment{nullptr};
  EnvironmentVariable no_class{"LEND_TRAFFIC_CLASS", nullptr};
  Tree tree{};
};

/// A file that is there, and fails to be read.
void make_unreadable(Tree const& tree, std::string const& path) {
  tree.remove(path);
  std::filesystem::create_directories(tree.root() + path);
}

}  // namespace

TEST_CASE("a class that the host gives others and lend does not take is found", "[doctor]") {
  TwoPorts const host;
  CHECK(host.packets().seen == "connect() takes 0, the default; the host shows no other");
  CHECK(host.packets().level == ok);

  host.tree.write(host.rdma_cm, "0");
  CHECK(host.packets().level == ok);
  host.tree.write(host.rdma_cm, "106");
  CHECK(host.packets().level == warn);
  CHECK(host.packets().mend == "export LEND_TRAFFIC_CLASS=106");
  check_story("a finding: a class of rdma_cm alone", story_of(text_of(host.packets())));
  CHECK(host.packets("fake1/1").level == ok);
  {
    EnvironmentVariable const same{"LEND_TRAFFIC_CLASS", "106"};
    CHECK(host.packets().level == ok);
    CHECK(host.packets().seen ==
          "LEND_TRAFFIC_CLASS is 106 (DSCP 26, ECN 2), as rdma_cm's default");
  }
  EnvironmentVariable const other{"LEND_TRAFFIC_CLASS", "96"};
  CHECK(host.packets().level == warn);
  CHECK(has(host.packets().seen, "is 96 (DSCP 24, ECN 0), and rdma_cm gives"));
  host.tree.write(host.rdma_cm, "0");
  CHECK(host.packets().level == ok);
}

TEST_CASE("a class of the driver is that of lend, unless a variable says another", "[doctor]") {
  TwoPorts const host;

  host.tree.write(host.rdma_cm, "96");
  host.tree.write(host.driver, "");  // as it is where none is set
  CHECK(has(host.packets().seen, "rdma_cm gives programs that choose none 96"));
  host.tree.write(host.driver, "Global tclass=106\ndst_ip=10.77.0.9/32,tclass=26");
  CHECK(host.packets().level == ok);
  CHECK(host.packets().seen == "106 (DSCP 26, ECN 2), which the driver gives all packets");
  host.tree.write(host.driver, "Global tclass=0");
  CHECK(host.packets().seen == "0, which the driver gives all packets");
  {
    EnvironmentVariable const other{"LEND_TRAFFIC_CLASS", "96"};
    CHECK(host.packets().level == warn);
    host.tree.write(host.driver, "Global tclass=106");
    CHECK(host.packets().mend == "export LEND_TRAFFIC_CLASS=106");
    check_story("a finding: a class of the driver", story_of(text_of(host.packets())));
    host.tree.write(host.driver, "Global tclass=96");
    CHECK(host.packets().level == ok);
  }
  host.tree.write(host.driver, "src_ip=10.77.0.1,dst_ip=10.77.0.0/24,tclass=26");
  CHECK(host.packets().level == skipped);
  CHECK(has(host.packets().why, "by addresses: cat " + host.driver));
}

TEST_CASE("a class that is not known, or not of RoCE, is skipped", "[doctor]") {
  TwoPorts const host;

  for (auto const* text : {"Global tclass=x", "Global tclass=256", "Global tclass="}) {
    host.tree.write(host.driver, text);
    CHECK(has(host.packets().why, "traffic_class has no class"));
  }
  make_unreadable(host.tree, host.driver);
  CHECK(host.packets().why == host.driver + " cannot be read");
  host.tree.remove(host.driver);
  for (auto const* text : {"x", "256", "10 6"}) {
    host.tree.write(host.rdma_cm, text);
    CHECK(host.packets().why == host.rdma_cm + " cannot be read");
  }
  make_unreadable(host.tree, host.rdma_cm);
  CHECK(host.packets().why == host.rdma_cm + " cannot be read");
  host.tree.remove(host.rdma_cm);
  EnvironmentVariable const bad{"LEND_TRAFFIC_CLASS", "26x"};
  CHECK(has(host.packets().why, "see environment"));
  host.tree.write("/sys/class/infiniband/fake0/ports/1/link_layer", "InfiniBand");
  host.tree.write("/sys/class/infiniband/fake1/node_type", "4: RNIC");
  for (auto const* port : {"fake0/1", "fake1/1"}) {
    CHECK(host.packets(port).why == "concerns RoCE");
    CHECK(host.subnet(port).why == "concerns RoCE");
  }
  for (auto const* port : {"fake0", "fake1"})
    host.tree.remove("/sys/class/infiniband/" + std::string{port});
  CHECK(has(host.packets("this host").why, "no RDMA device"));
  CHECK(has(host.subnet("this host").why, "no RDMA device"));
}

TEST_CASE("two ports in one network are found, unless each answers for itself", "[doctor]") {
  TwoPorts const host;
  CHECK(host.subnet().level == ok);
  CHECK(host.subnet().seen == "no other port of RoCE is in its network");

  SECTION("the same network") {
    host.write_routes(TwoPorts::one_network);
  }
  SECTION("a part of it") {
    host.write_routes("eth7 0000000A 000000FF eth8 00004D0A 00FFFFFF");
  }
  CHECK(host.subnet().level == warn);
  CHECK(host.subnet().mend ==
        "sudo sysctl net.ipv4.conf.all.arp_ignore=1\nsudo sysctl net.ipv4.conf.all.arp_announce=2");
  CHECK(
      has(host.subnet("fake1/1").seen, "eth8 is in one network with fake0/1 (eth7): arp_ignore 0"));
  check_story("a finding: two ports in one network", story_of(text_of(host.subnet())));
  host.set("eth7", "1", "2");
  CHECK(host.subnet().level == ok);
  CHECK(has(host.subnet().seen, "fake1/1 (eth8); each answers for itself"));
  CHECK(host.subnet("fake1/1").level == warn);
  host.set("all", "2", "1");
  CHECK(host.subnet("fake1/1").mend == "sudo sysctl net.ipv4.conf.all.arp_announce=2");
  for (auto const* ignore : {"1", "2", "8"}) {
    host.set("all", ignore, "2");
    CHECK(host.subnet("fake1/1").level == ok);
  }
  host.set("all", "3", "2");
  CHECK(has(host.subnet("fake1/1").seen, ": arp_ignore 3"));
}

TEST_CASE("a strict reverse path is found where two ports are in one network", "[doctor]") {
  TwoPorts const host;
  host.set("all", "1", "2", "1");
  CHECK(host.subnet().level == ok);

  host.write_routes(TwoPorts::one_network);
  CHECK(host.subnet().level == warn);
  CHECK(host.subnet().mend == "sudo sysctl net.ipv4.conf.all.rp_filter=2");
  CHECK(has(host.subnet().why, "Linux drops"));
  host.set("eth7", "0", "0", "2");
  CHECK(host.subnet().level == ok);
  CHECK(host.subnet("fake1/1").level == warn);
}

TEST_CASE("networks and settings that Linux does not show are skipped", "[doctor]") {
  TwoPorts const host;
  auto const port = std::string{"/sys/class/infiniband/fake0/ports/1"};
  host.write_routes(TwoPorts::one_network);

  SECTION("a setting") {
    host.tree.remove("/proc/sys/net/ipv4/conf/eth7/arp_ignore");
    CHECK(has(host.subnet().why, "fake1/1 (eth8); its settings of ARP cannot be read"));
    CHECK(host.subnet("fake1/1").level == warn);
    host.tree.remove("/proc/sys/net/ipv4/conf/all");
    CHECK(host.subnet("fake1/1").level == skipped);
  }
  SECTION("the routing policy") {
    host.set("all", "0", "0", "0", "1");
    CHECK(has(host.subnet().why, "arp_filter 1: its routes decide"));
  }
  SECTION("the routes") {
    host.write_routes("eth8 00004D0A 00FFFFFF");
    CHECK(has(host.subnet().why, "eth7 has no network"));
    CHECK(host.subnet("fake1/1").level == ok);
    host.tree.write("/proc/self/net/route", "\t\t\t\neth7\tx\t0\ty\t\t\t\t\t\t\neth7");
    CHECK(host.subnet().level == skipped);
    host.tree.remove("/proc/self/net/route");
    CHECK(host.subnet().why == "/proc/self/net/route cannot be read");
  }
  SECTION("no address of IPv4") {
    host.tree.remove(port + "/gids/1");
    CHECK(host.subnet().why == "it has no address of IPv4");
    CHECK(host.subnet("fake1/1").level == ok);
  }
  SECTION("a port that is down") {
    host.tree.write(port + "/state", "1: DOWN");
    CHECK(host.subnet("fake1/1").level == ok);
  }
}

TEST_CASE("of several interfaces of a port each is compared with those of other ports",
          "[doctor]") {
  TwoPorts const host;
  auto const port = std::string{"/sys/class/infiniband/fake0/ports/1"};
  host.tree.write(port + "/gids/2", "0000:0000:0000:0000:0000:ffff:0a4e:0001");
  host.tree.write(port + "/gid_attrs/ndevs/2", "eth7.100");
  host.tree.write(port + "/gid_attrs/types/2", "RoCE v2");
  host.set("eth7.100", "0", "0");

  host.write_routes(std::string{TwoPorts::own_networks} + " eth7.100 00004D0A 00FFFFFF");
  CHECK(host.subnet().level == ok);  // both are of one port
  host.write_routes(std::string{TwoPorts::own_networks} + " eth7.100 00004E0A 00FFFFFF");
  CHECK(host.subnet().level == warn);
  CHECK(has(host.subnet().seen, "eth7.100 is in one network with fake1/1 (eth8)"));
  CHECK(has(host.subnet("fake1/1").seen, "eth8 is in one network with fake0/1 (eth7.100)"));
}

TEST_CASE("classes and networks are captured without their addresses", "[doctor]") {
  TwoPorts const host;
  host.write_routes(TwoPorts::one_network);
  host.tree.write(host.driver, "src_ip=10.77.0.1,dst_ip=10.77.0.9/32,tclass=26");
  host.tree.write("/sys/class/infiniband/fake1/tc/1/traffic_class", "Global tclass=106");

  auto const captured = doctor::capture(host.tree.host());

  for (auto const* address : {"10.77.0", "4D0A", "0A4D", "0a4d"})
    CHECK(captured.text.find(address) == std::string::npos);
  auto const again = examine_captured(captured.text);
  REQUIRE(again.has_value());
  for (auto const& finding : captured.findings) {
    if (finding.id != "class" && finding.id != "subnet") continue;
    CHECK(std::ranges::count(again.value(), text_of(finding),
                             [](Finding const& one) { return text_of(one); }) == 1);
  }
}
