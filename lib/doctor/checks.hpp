// SPDX-License-Identifier: MIT OR Apache-2.0
// The checks: one function each, in a table.
#pragma once

#include <lend/doctor/capture.hpp>
#include <lend/doctor/examine.hpp>

#include <doctor/host.hpp>

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lend::doctor {

/// Where a check writes what it found.
class Notes {
 public:
  Notes(std::string_view id, std::string_view page, std::vector<Finding>& findings) noexcept
      : id_{id}, page_{page}, findings_{findings} {}

  void ok(std::string subject, std::string seen) {
    add(FindingLevel::ok, std::move(subject), std::move(seen), {}, {});
  }
  void warn(std::string subject, std::string seen, std::string why, std::string mend = {}) {
    add(FindingLevel::warn, std::move(subject), std::move(seen), std::move(why), std::move(mend));
  }
  void fail(std::string subject, std::string seen, std::string why, std::string mend = {}) {
    add(FindingLevel::fail, std::move(subject), std::move(seen), std::move(why), std::move(mend));
  }
  void skip(std::string subject, std::string why, std::string mend = {}) {
    add(FindingLevel::skipped, std::move(subject), {}, std::move(why), std::move(mend));
  }

 private:
  void add(FindingLevel level, std::string subject, std::string seen, std::string why,
           std::string mend) {
    findings_.push_back(
        {id_, level, std::move(subject), std::move(seen), std::move(why), std::move(mend), page_});
  }

  std::string_view id_, page_;
  std::vector<Finding>& findings_;
};

struct Check {
  std::string_view id, page;
  void (*run)(Host const&, Notes&);
};

/// In the order of their findings: first what others follow from.
[[nodiscard]] std::span<Check const> checks() noexcept;
/// examine() of another host. A check that asks what the host's record lacks is skipped.
[[nodiscard]] std::vector<Finding> examine(Host const& host);
/// That of this process.
[[nodiscard]] Host this_host();
/// capture_examination() of another host, whose record it replaces.
[[nodiscard]] Capture capture(Host host);

constexpr std::string_view this_process = "this process";
/// For checks that concern RDMA devices, where there is none.
constexpr std::string_view no_device = "the kernel shows no RDMA device (/sys/class/infiniband)";
/// Between the readings of counters: many times what drivers keep them for, 10 ms.
constexpr std::chrono::milliseconds counters_apart{250};

/// The RDMA devices that the kernel knows.
[[nodiscard]] inline std::vector<std::string> kernel_devices(Host const& host) {
  return host.entries("/sys/class/infiniband");
}

/// Whether the process runs in a container that says so.
[[nodiscard]] inline bool is_in_container(Host const& host) {
  return host.exists("/.dockerenv") || host.exists("/run/.containerenv");
}

// process.cpp
void check_locked_memory(Host const&, Notes&);
void check_descriptors(Host const&, Notes&);
void check_cpus(Host const&, Notes&);
void check_cgroup(Host const&, Notes&);
void check_pages(Host const&, Notes&);
void check_forks(Host const&, Notes&);
void check_environment(Host const&, Notes&);
// device_files.cpp
void check_devices(Host const&, Notes&);
void check_modules(Host const&, Notes&);
void check_device_files(Host const&, Notes&);
void check_permissions(Host const&, Notes&);
void check_drivers(Host const&, Notes&);
// ports.cpp
void check_ports(Host const&, Notes&);
void check_namespaces(Host const&, Notes&);
void check_partitions(Host const&, Notes&);
void check_routes(Host const&, Notes&);
void check_addresses(Host const&, Notes&);
void check_mtu(Host const&, Notes&);
void check_nodes(Host const&, Notes&);
void check_links(Host const&, Notes&);
// networks.cpp
void check_classes(Host const&, Notes&);
void check_subnets(Host const&, Notes&);
// counters.cpp
void check_counters(Host const&, Notes&);
// opening.cpp
void check_versions(Host const&, Notes&);
void check_soft_device(Host const&, Notes&);
void check_cross_memory(Host const&, Notes&);
void check_opening(Host const&, Notes&);
void check_use(Host const&, Notes&);

}  // namespace lend::doctor
