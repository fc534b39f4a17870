// SPDX-License-Identifier: MIT OR Apache-2.0
// Trees of hosts that this one is not, and the findings there. Written by hand, after Linux
// Documentation/ABI/stable/sysfs-class-infiniband: none was captured on a host with a card.
#pragma once

#include <doctor/checks.hpp>
#include <open_device.hpp>
#include <soft/device/provider.hpp>
#include <verbs/device/device_list.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/new_directory.hpp"
#include "verbs/fake_provider.hpp"

namespace lend::test {

inline constexpr auto ok = FindingLevel::ok, warn = FindingLevel::warn, fail = FindingLevel::fail,
                      skipped = FindingLevel::skipped;

/// A folder that ends with this.
class Tree {
 public:
  [[nodiscard]] std::string const& root() const noexcept { return directory_.path(); }
  void write(std::string const& path, std::string const& text) const {
    std::filesystem::path const file{root() + path};
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << text << '\n';
  }
  void remove(std::string const& path) const { std::filesystem::remove_all(root() + path); }

  /// A RoCE card with one active port, as the fake provider has one. Its interface is eth7.
  void add_card(std::string const& name = "fake0") const {
    auto const device = "/sys/class/infiniband/" + name;
    auto const port = device + "/ports/1";
    write(device + "/fw_ver", "20.1.2");
    write(device + "/node_type", "1: CA");
    write(device + "/device/numa_node", "0");
    write("/sys/devices/system/node/node0/cpulist", "0-3");
    write(port + "/state", "4: ACTIVE");
    write(port + "/link_layer", "Ethernet");
    write(port + "/rate", "100 Gb/sec (4X EDR)");
    write(port + "/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001");
    write(port + "/gids/1", "0000:0000:0000:0000:0000:ffff:0a4d:0001");
    write(port + "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
    for (auto const* index : {"0", "1"}) {
      write(port + "/gid_attrs/types/" + index, "RoCE v2");
      write(port + "/gid_attrs/ndevs/" + index, "eth7");
    }
    write("/sys/class/net/eth7/mtu", "9000");
    write("/sys/class/infiniband_verbs/uverbs0/ibdev", name);
    write("/sys/module/ib_uverbs/x", "");
    write("/sys/module/rdma_ucm/x", "");
    write("/dev/infiniband/uverbs0", "");
    write("/dev/infiniband/rdma_cm", "");
    write("/sys/module/ib_core/parameters/netns_mode", "Y");
    write(port + "/counters/symbol_error", "7");
    write(port + "/hw_counters/rcvd_seq_err", "4");
    write(port + "/hw_counters/out_of_buffer", "N/A");
  }
  /// A process on the CPUs 2 and 3, not root, with these limits.
  void add_process(std::string const& locked = "unlimited",
                   std::string const& files = "1024") const {
    write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units\n"
          "Max locked memory         " +
              locked +
              "            unlimited            bytes\n"
              "Max open files            " +
              files + "                 4096                 files");
    write("/proc/self/status",
          "Name:\tx\nVmPin:\t    1024 kB\nCapEff:\t0000000000000000\nCpus_allowed_list:\t2-3");
    write("/proc/self/uid_map", "         0          0 4294967295");
    write("/proc/self/net/dev", "    lo: 0 0\n  eth7: 0 0");
  }

  /// With the devices that the fake provider lists, and the soft one.
  [[nodiscard]] doctor::Host host() const {
    HostDevices devices{verbs::devices_of(fake_provider()).value(),
                        verbs::devices_of(soft::provider()).value()};
    return {.root = root(),
            .devices = list_devices(devices),
            .open = [devices](DeviceChoice const& choice) { return open_device(devices, choice); },
            .forks = doctor::ForkSafety::by_kernel};
  }

 private:
  NewDirectory directory_{};
};

/// What the check `id` found of `subject`; that there is exactly one is checked.
inline Finding finding_of(doctor::Host const& host, std::string_view id, std::string_view subject) {
  auto const findings = doctor::examine(host);
  auto const is_it = [&](Finding const& finding) {
    return finding.id == id && finding.subject == subject;
  };
  INFO(id << " of " << subject);
  REQUIRE(std::ranges::count_if(findings, is_it) == 1);
  return *std::ranges::find_if(findings, is_it);
}

inline bool has(std::string_view text, std::string_view part) {
  UNSCOPED_INFO("\"" << text << "\" should have \"" << part << '"');
  return text.find(part) != text.npos;
}

}  // namespace lend::test
