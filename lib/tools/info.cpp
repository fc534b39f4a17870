// SPDX-License-Identifier: MIT OR Apache-2.0
// lend info
#include <lend/doctor/examine.hpp>
#include <lend/open_device.hpp>

#include <command/version.hpp>
#include <tools/commands.hpp>

#include <cstdio>

namespace lend::tools {

namespace {

void print_addresses(Device const& device, std::uint8_t number) {
  // Only an active port can be opened, and only its addresses serve.
  auto const context = device.open(number);
  if (context.has_error()) return;
  auto const gids = context.value().gids();
  if (gids.has_error()) {
    std::printf("    addresses: %s\n", gids.error().message().c_str());
    return;
  }
  for (auto const& entry : gids.value()) {
    auto const interface = network_interface_of(entry);
    std::printf("    gid %u: %s, %s%s%s\n", entry.index, lend::text_of(entry.gid).c_str(),
                std::string{name_of(entry.type)}.c_str(), interface.empty() ? "" : ", ",
                interface.c_str());
  }
}

void print_port(PortInfo const& port) {
  std::printf(
      "  port %d: %s, %s, MTU %u of %u", port.number, std::string{name_of(port.state)}.c_str(),
      std::string{name_of(port.link_layer)}.c_str(), port.active_mtu_bytes, port.mtu_bytes_max);
  if (port.megabits() != 0) std::printf(", %u Mb/s", port.megabits());
  if (port.lid != 0) std::printf(", LID %d", port.lid);
  std::printf("\n");
}

void print_device(Device const& device) {
  std::printf("%s (%s), GUID %s\n", device.name().c_str(),
              std::string{name_of(device.kind())}.c_str(), lend::text_of(device.guid()).c_str());
  auto const opened = device.open();
  if (opened.has_error()) {
    std::printf("  cannot be opened: %s\n", opened.error().message().c_str());
    return;
  }
  auto const& context = opened.value();
  auto const& attributes = context.attributes();
  auto const can = context.capabilities();
  std::printf("  firmware %s, vendor 0x%x, NUMA node %s\n", attributes.firmware.c_str(),
              attributes.vendor_id,
              attributes.numa_node ? std::to_string(*attributes.numa_node).c_str() : "unknown");
  std::printf("  connects by%s%s; immediates %s, datagrams %s, atomics %s\n",
              can.endpoints ? " listen() and connect()" : "", can.rdma_cm ? " rdma_cm" : "",
              can.immediates ? "yes" : "no", can.datagrams ? "yes" : "no",
              can.atomics ? "yes" : "no");
  for (unsigned i = 1; i <= attributes.port_count; ++i) {
    auto const number = static_cast<std::uint8_t>(i);
    auto const port = context.query_port(number);
    if (port.has_error()) {
      std::printf("  port %u: %s\n", i, port.error().message().c_str());
      continue;
    }
    print_port(port.value());
    print_addresses(device, number);
  }
}

}  // namespace

int info() {
  std::printf("%s\n", command::version_of("lend").c_str());
  auto const devices = list_devices();
  if (devices.has_error()) return complain(devices.error(), status_of_failure);
  for (auto const& device : devices.value()) print_device(device);
  bool is_usable = true;
  for (auto const& finding : examine()) {
    if (finding.id != "open") continue;
    is_usable = finding.level == FindingLevel::ok;
    std::printf("%s: %s\n", finding.subject.c_str(), finding.seen.c_str());
  }
  return is_usable ? 0 : status_of_failure;
}

}  // namespace lend::tools
