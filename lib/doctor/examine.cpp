// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of checks, and the text of their findings. Any thread.
#include <base/printable.hpp>
#include <doctor/checks.hpp>
#include <verbs/device/rdma_core_library.hpp>

#include <array>
#include <cstddef>
#include <thread>

namespace lend {

namespace {

constexpr std::string_view devices_page = "devices";
constexpr std::string_view doctor_page = "doctor";
constexpr std::string_view memory_page = "memory";
constexpr std::string_view soft_page = "soft";
constexpr std::string_view threads_page = "threads-and-progress";

constexpr auto all_checks = std::to_array<doctor::Check>({
    {"versions", doctor_page, &doctor::check_versions},
    {"device", devices_page, &doctor::check_devices},
    {"namespace", doctor_page, &doctor::check_namespaces},
    {"modules", doctor_page, &doctor::check_modules},
    {"device.files", doctor_page, &doctor::check_device_files},
    {"device.denied", doctor_page, &doctor::check_permissions},
    {"device.driver", doctor_page, &doctor::check_drivers},
    {"port", devices_page, &doctor::check_ports},
    {"pkey", devices_page, &doctor::check_partitions},
    {"route", devices_page, &doctor::check_routes},
    {"gid", devices_page, &doctor::check_addresses},
    {"mtu", doctor_page, &doctor::check_mtu},
    {"class", doctor_page, &doctor::check_classes},
    {"subnet", doctor_page, &doctor::check_subnets},
    {"numa", memory_page, &doctor::check_nodes},
    {"link", doctor_page, &doctor::check_links},
    {"counters", doctor_page, &doctor::check_counters},
    {"memlock", memory_page, &doctor::check_locked_memory},
    {"descriptors", doctor_page, &doctor::check_descriptors},
    {"cgroup", doctor_page, &doctor::check_cgroup},
    {"cpu", doctor_page, &doctor::check_cpus},
    {"pages", memory_page, &doctor::check_pages},
    {"fork", threads_page, &doctor::check_forks},
    {"environment", doctor_page, &doctor::check_environment},
    {"soft.directory", soft_page, &doctor::check_soft_device},
    {"soft.cma", soft_page, &doctor::check_cross_memory},
    {"open", devices_page, &doctor::check_opening},
    {"use", devices_page, &doctor::check_use},
});

/// None where rdma-core is older than 35, which has the function, or absent.
std::optional<doctor::ForkSafety> fork_safety() {
  void* const found = verbs::libibverbs().find("ibv_is_fork_initialized", "IBVERBS_1.13");
  if (found == nullptr) return std::nullopt;
  return static_cast<doctor::ForkSafety>(reinterpret_cast<int (*)()>(found)());
}

/// `text` in lines that begin with `label` and then with as many spaces.
void append_lines(std::string& lines, std::string_view label, std::string_view text) {
  std::string head{label};
  while (!text.empty()) {
    auto const end = text.find('\n');
    std::string line{text.substr(0, end)};
    base::replace_controls(line);
    (lines += head += line) += '\n';
    head.assign(label.size(), ' ');
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
}

}  // namespace

std::span<doctor::Check const> doctor::checks() noexcept {
  return all_checks;
}

std::vector<Finding> doctor::examine(Host const& host) {
  std::vector<Finding> findings;
  for (Check const& check : all_checks) {
    Notes notes{check.id, check.page, findings};
    auto const before = findings.size();
    check.run(host, notes);
    auto const lacking = host.record ? host.record->take_lacking() : std::string{};
    if (lacking.empty()) continue;
    findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(before), findings.end());
    notes.skip("the capture", "it has no answer to: " + lacking);
  }
  return findings;
}

doctor::Host doctor::this_host() {
  return {.devices = list_devices(),
          .open = [](DeviceChoice const& choice) { return open_device(choice); },
          .libibverbs_obstacle = verbs::libibverbs_obstacle(),
          .forks = fork_safety(),
          .pause = [] { std::this_thread::sleep_for(counters_apart); }};
}

std::vector<Finding> examine() {
  return doctor::examine(doctor::this_host());
}

std::string_view name_of(FindingLevel level) noexcept {
  switch (level) {
    case FindingLevel::ok: return "ok";
    case FindingLevel::warn: return "warn";
    case FindingLevel::fail: return "fail";
    case FindingLevel::skipped: return "skipped";
  }
  return "unknown";
}

std::string text_of(Finding const& finding) {
  constexpr std::size_t level_width = 9;
  std::string head{name_of(finding.level)};
  head.resize(level_width, ' ');
  auto const is_skipped = finding.level == FindingLevel::skipped;
  std::string first = finding.subject + ": " + (is_skipped ? finding.why : finding.seen);
  base::replace_controls(first);
  std::string text;
  append_lines(text, head + std::string{finding.id} + ", ", first);
  if (!is_skipped) append_lines(text, "         why:  ", finding.why);
  append_lines(text, "         mend: ", finding.mend);
  return text;
}

}  // namespace lend
