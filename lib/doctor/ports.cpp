// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks of ports, their addresses and their place, from sysfs: no permission is needed for it.
// Source: Linux Documentation/ABI/stable/sysfs-class-infiniband.
#include <doctor/ports.hpp>
#include <verbs/device/gid_table.hpp>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

namespace lend::doctor {

namespace {

/// "eth0": the interface of a port's first address; empty on InfiniBand.
std::string interface_of(Host const& host, Port const& port) {
  for (auto const& name : host.entries(port.folder + "/gid_attrs/ndevs"))
    if (auto const interface = host.read(port.folder + "/gid_attrs/ndevs/" + name);
        interface && !interface->empty())
      return *interface;
  return {};
}

/// How fast a device is connected to its host, or can be.
/// Source: Linux Documentation/ABI/testing/sysfs-bus-pci, current_link_speed and the others.
struct Link {
  std::string speed{};  // "16.0 GT/s PCIe"
  std::uint64_t transfers = 0, lanes = 0;

  /// `which`: current or max. None where the device is not on PCI Express.
  [[nodiscard]] static std::optional<Link> of(Host const& host, std::string const& device,
                                              std::string const& which) {
    auto const start = "/sys/class/infiniband/" + device + "/device/" + which + "_link_";
    auto speed = host.read(start + "speed").value_or("");
    auto const transfers = number_of(speed);  // whole ones tell all generations apart
    auto const lanes = number_of(host.read(start + "width").value_or(""));
    if (!transfers || !lanes) return std::nullopt;
    return Link{std::move(speed), *transfers, *lanes};
  }
  [[nodiscard]] std::string text() const { return 'x' + std::to_string(lanes) + " at " + speed; }
};

bool requires_global_routes(Host const& host, Port const& port) {
  auto const number = number_of(port.number()).value_or(0);
  return host.needs_global_route(port.device(), static_cast<std::uint8_t>(number));
}

/// Those that another network namespace has for itself; in /sys they may be `listed` here.
/// Source: rdma-system(8); Linux drivers/infiniband/core/device.c, rdma_dev_access_netns().
std::vector<std::string> devices_elsewhere(Host const& host,
                                           std::vector<std::string> const& listed) {
  std::vector<std::string> devices;
  if (host.read("/sys/module/ib_core/parameters/netns_mode") != "N") return devices;
  std::string const files = "/sys/class/infiniband_verbs/";  // of all namespaces
  for (auto const& file : host.entries(files))
    if (auto const device = host.read(files + file + "/ibdev");
        device && (std::ranges::count(listed, *device) == 0 ||
                   host.error_of_opening("/dev/infiniband/" + file) == EPERM))
      devices.push_back(*device);
  return devices;
}

/// Whether a line of `text` begins with this name, after spaces, and a colon.
bool has_line_of(std::string_view text, std::string const& name) {
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.starts_with(name + ':')) return true;
  }
  return false;
}

constexpr std::string_view start_subnet_manager = "sudo systemctl start opensm  (on one host)";
constexpr int link_local_rank = 2;
constexpr int version_1_rank = 3;

}  // namespace

std::vector<Port> ports_of(Host const& host) {
  std::vector<Port> ports;
  for (auto const& device : kernel_devices(host)) {
    auto const folder = "/sys/class/infiniband/" + device + "/ports/";
    for (auto const& number : host.entries(folder)) {
      Port port{device + '/' + number, folder + number};
      auto const state = host.read(port.folder + "/state").value_or("");  // "4: ACTIVE"
      port.state = state.substr(std::min(state.find(' ') + 1, state.size()));
      port.is_ethernet = host.read(port.folder + "/link_layer") == "Ethernet";
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

std::vector<GidEntry> addresses_of(Host const& host, Port const& port) {
  std::vector<GidEntry> entries;
  for (auto const& name : host.entries(port.folder + "/gids")) {
    auto const index = number_of(name);
    auto const gid = verbs::gid_of_text(host.read(port.folder + "/gids/" + name).value_or(""));
    if (!index || !gid || *gid == Gid{}) continue;
    auto const type = host.read(port.folder + "/gid_attrs/types/" + name);  // "RoCE v2"
    auto const kind = type == "RoCE v2"  ? GidType::roce_v2
                      : port.is_ethernet ? GidType::roce_v1
                                         : GidType::infiniband;
    entries.push_back({static_cast<std::uint32_t>(*index), kind, *gid, 0});
  }
  std::ranges::sort(entries, {}, [](GidEntry const& entry) {
    return std::pair{verbs::rank_of(entry), entry.index};
  });
  return entries;
}

bool is_iwarp(Host const& host, Port const& port) {
  auto const type = host.read("/sys/class/infiniband/" + port.device() + "/node_type");
  return type.value_or("").find("RNIC") != std::string::npos;
}

void check_namespaces(Host const& host, Notes& notes) {
  auto here = kernel_devices(host);
  auto const elsewhere = devices_elsewhere(host, here);
  if (here.empty() && elsewhere.empty()) return notes.skip("this host", std::string{no_device});
  for (auto const& device : elsewhere) std::erase(here, device);
  for (auto const& device : elsewhere) {
    std::string const seen = "belongs to another network namespace";
    if (!here.empty()) {
      notes.ok(device, seen);
      continue;
    }
    notes.fail(device, seen, "RDMA devices are not shared (rdma system), so nothing here opens it",
               "sudo rdma dev set " + device + " netns NAME  (in the namespace that has it)");
  }
  // Not those of /sys/class/net, which may be another namespace's. Source: proc(5), /proc/net/dev.
  auto const interfaces = host.read("/proc/self/net/dev");
  bool is_any_apart = false;
  for (auto const& port : ports_of(host)) {
    auto const interface = interface_of(host, port);
    if (!interfaces || interface.empty() || std::ranges::count(elsewhere, port.device()) != 0 ||
        has_line_of(*interfaces, interface))
      continue;
    is_any_apart = true;
    notes.warn(port.subject, "its interface " + interface + " is in another network namespace",
               "rdma_cm finds no address of the port here: cm_connect() and CmListener fail",
               is_in_container(host)
                   ? "docker run --network=host …  (podman takes the same)"
                   : "sudo ip link set dev " + interface + " netns NAME  (in the one that has it)");
  }
  if (!is_any_apart && !here.empty())
    notes.ok("this host", "this network namespace has its RDMA devices");
}

void check_ports(Host const& host, Notes& notes) {
  auto const ports = ports_of(host);
  if (ports.empty()) return notes.skip("this host", std::string{no_device});
  bool const is_any_active = std::ranges::any_of(ports, &Port::is_active);
  for (auto const& port : ports) {
    auto const seen = port.state + ", " + host.read(port.folder + "/link_layer").value_or("?") +
                      ", " + host.read(port.folder + "/rate").value_or("rate unknown");
    if (port.is_active()) {
      notes.ok(port.subject, seen);
      continue;
    }
    auto const interface = interface_of(host, port);
    bool const waits = port.state == "INIT" || port.state == "ARMED";
    auto const why = waits ? "the port waits for a subnet manager"
                           : "its cable or its network interface is down";
    auto const mend = waits               ? std::string{start_subnet_manager}
                      : !port.is_ethernet ? std::string{"ibstat, and look at cable and switch"}
                      : interface.empty() ? std::string{"sudo ip link set dev INTERFACE up"}
                                          : "sudo ip link set dev " + interface + " up";
    if (is_any_active)
      notes.warn(port.subject, seen, why, mend);
    else
      notes.fail(port.subject, seen, why, mend);
  }
}

void check_partitions(Host const& host, Notes& notes) {
  for_each_active(host, notes, [&](Port const& port) {
    if (port.is_ethernet) return notes.skip(port.subject, "partitions concern InfiniBand");
    auto const key = host.read(port.folder + "/pkeys/0").value_or("none");
    constexpr std::uint64_t full_member = 0x8000;
    if ((number_of(key, 16).value_or(0) & full_member) != 0)
      return notes.ok(port.subject, "full member of partition " + key);
    notes.warn(port.subject, "default partition key " + key,
               "limited members of a partition do not reach each other",
               "the subnet manager's partitions.conf, or partition_key() of the builder");
  });
}

void check_routes(Host const& host, Notes& notes) {
  for_each_active(host, notes, [&](Port const& port) {
    if (port.is_ethernet) return notes.skip(port.subject, "concerns InfiniBand");
    auto const lid = number_of(host.read(port.folder + "/lid").value_or(""), 16).value_or(0);
    auto const by_gid_only = lid == 0 || requires_global_routes(host, port);
    auto const seen = "LID " + std::to_string(lid) +
                      (lid != 0 && by_gid_only ? ", and its subnet requires global routes" : "");
    if (by_gid_only && addresses_of(host, port).empty())
      notes.fail(port.subject, seen + "; no GID", "no peer can send to the port",
                 std::string{start_subnet_manager});
    else if (lid == 0)
      notes.warn(port.subject, seen, "programs that send by LID do not reach it; lend sends by GID",
                 std::string{start_subnet_manager});
    else
      notes.ok(port.subject, seen);
  });
}

void check_addresses(Host const& host, Notes& notes) {
  for_each_active(host, notes, [&](Port const& port) {
    if (is_iwarp(host, port)) return notes.skip(port.subject, "rdma_cm chooses iWARP's addresses");
    auto const entries = addresses_of(host, port);
    auto const interface = interface_of(host, port);
    auto const mend = "sudo ip addr add ADDRESS/24 dev " +
                      (interface.empty() ? std::string{"INTERFACE"} : interface);
    if (entries.empty() && port.is_ethernet)
      return notes.fail(port.subject, "no GID", "a queue pair on Ethernet needs an address", mend);
    if (entries.empty()) return notes.ok(port.subject, "no GID; InfiniBand is reached by LID");
    auto const& best = entries.front();
    auto const seen =
        "takes index " + std::to_string(best.index) + " of " + verbs::text_of(entries);
    auto const rank = verbs::rank_of(best);
    if (rank >= version_1_rank)
      notes.warn(port.subject, seen, "RoCE v1 does not pass routers, and no peer of RoCE v2 fits",
                 "check the port's address and the driver's RoCE mode");
    else if (rank >= link_local_rank)
      notes.warn(port.subject, seen, "a link-local address works only within one link", mend);
    else
      notes.ok(port.subject, seen);
  });
}

void check_mtu(Host const& host, Notes& notes) {
  // A path MTU of 4096 and its headers. Source: Linux include/rdma/ib_addr.h, iboe_get_mtu().
  constexpr std::uint64_t wanted = 4096 + 96;
  for_each_active(host, notes, [&](Port const& port) {
    auto const interface = interface_of(host, port);
    if (!port.is_ethernet || is_iwarp(host, port) || interface.empty())
      return notes.skip(port.subject, "concerns RoCE");
    auto const mtu = number_of(host.read("/sys/class/net/" + interface + "/mtu").value_or(""));
    if (!mtu) return notes.skip(port.subject, "the MTU of " + interface + " cannot be read");
    auto const seen = interface + " has MTU " + std::to_string(*mtu);
    if (*mtu >= wanted) return notes.ok(port.subject, seen);
    notes.warn(port.subject, seen,
               "packets carry less than 4096 bytes, so large messages are slower; every switch and "
               "peer between must carry the larger MTU too",
               "sudo ip link set dev " + interface + " mtu 4200");
  });
}

void check_nodes(Host const& host, Notes& notes) {
  auto const devices = kernel_devices(host);
  if (devices.empty()) return notes.skip("this host", std::string{no_device});
  auto const status = host.read("/proc/self/status").value_or("");
  auto const allowed = numbers_of_list(field_of(status, "Cpus_allowed_list:").value_or(""));
  for (auto const& device : devices) {
    // -1, or no file: not known. Source: Documentation/ABI/testing/sysfs-bus-pci, numa_node.
    auto const node = host.read("/sys/class/infiniband/" + device + "/device/numa_node");
    if (!node || !number_of(*node)) {
      notes.skip(device, "Linux does not say on which NUMA node it is");
      continue;
    }
    auto const list = host.read("/sys/devices/system/node/node" + *node + "/cpulist");
    auto const near = numbers_of_list(list.value_or(""));
    auto const is_near = std::ranges::any_of(
        near, [&](auto cpu) { return std::ranges::find(allowed, cpu) != allowed.end(); });
    if (is_near)
      notes.ok(device, "is on node " + *node + ", as CPUs of this process");
    else
      notes.warn(
          device, "is on node " + *node + ", and no CPU of this process",
          "each access crosses the link between the nodes",
          "numactl --cpunodebind=" + *node + " …, or run_on_node(" + *node + ") in the program");
  }
}

void check_links(Host const& host, Notes& notes) {
  auto const devices = kernel_devices(host);
  if (devices.empty()) return notes.skip("this host", std::string{no_device});
  for (auto const& device : devices) {
    auto const now = Link::of(host, device, "current"), most = Link::of(host, device, "max");
    if (!now || !most)
      notes.skip(device, "Linux does not say how it is connected to this host");
    else if (now->lanes >= most->lanes && now->transfers >= most->transfers)
      notes.ok(device, now->text());
    else
      notes.warn(
          device, now->text() + ", and it can do " + most->text(),
          "its slot, riser or cable has fewer lanes or an older generation than the card, or "
          "lanes have failed",
          "sudo lspci -vv  (LnkSta; and then another slot)");
  }
}

}  // namespace lend::doctor
