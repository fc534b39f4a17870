// SPDX-License-Identifier: MIT OR Apache-2.0
// lend info
#include <lend/doctor/examine.hpp>
#include <lend/open_device.hpp>

#include <base/environment.hpp>
#include <base/printable.hpp>
#include <base/variables.hpp>
#include <command/terminal.hpp>
#include <command/version.hpp>
#include <tools/commands.hpp>
#include <tools/json.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace lend::tools {

namespace {

/// What a connection of this port would get.
void print_settings(Context const& context) {
  auto const settings = context.settings();
  if (settings.has_error()) {
    std::printf("    connections: %s\n", settings.error().message().c_str());
    return;
  }
  std::printf("    connections have\n");
  for (auto const& [name, value, source] : settings.value())
    std::printf("      %s %s (%s)\n", name.c_str(), value.c_str(), source.c_str());
}

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
  print_settings(context.value());
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

void print_devices(std::vector<Device> const& devices) {
  std::printf("%s\n", command::version_of("lend").c_str());
  for (auto const& device : devices) print_device(device);
}

Json json_of_limits(DeviceLimits const& limits) {
  return {{"queue_pairs_max", limits.queue_pairs_max},
          {"completion_queues_max", limits.completion_queues_max},
          {"protection_domains_max", limits.protection_domains_max},
          {"regions_max", limits.regions_max},
          {"region_bytes_max", limits.region_bytes_max},
          {"work_requests_max", limits.work_requests_max},
          {"elements_max", limits.elements_max},
          {"completions_max", limits.completions_max},
          {"receive_queues_max", limits.receive_queues_max},
          {"shared_receives_max", limits.shared_receives_max},
          {"shared_receive_elements_max", limits.shared_receive_elements_max},
          {"read_elements_max", limits.read_elements_max},
          {"reads_in_flight_max", limits.reads_in_flight_max},
          {"reads_served_max", limits.reads_served_max},
          {"address_handles_max", limits.address_handles_max},
          {"memory_windows_max", limits.memory_windows_max},
          {"multicast_groups_max", limits.multicast_groups_max},
          {"partition_keys_max", limits.partition_keys_max}};
}

Json json_of_capabilities(DeviceCapabilities const& can) {
  return {{"endpoints", can.endpoints},
          {"rdma_cm", can.rdma_cm},
          {"immediates", can.immediates},
          {"unreliable", can.unreliable},
          {"datagrams", can.datagrams},
          {"atomics", can.atomics},
          {"windows", can.windows},
          {"peer_loans", can.peer_loans},
          {"paging_on_demand", can.paging_on_demand},
          {"timestamps", can.timestamps}};
}

Json json_of_port(Device const& device, Context const& context, std::uint8_t number) {
  Json object{{"number", number}};
  auto const port = context.query_port(number);
  if (port.has_error()) {
    object["error"] = port.error().message();
    return object;
  }
  object.update({{"state", name_of(port.value().state)},
                 {"link_layer", name_of(port.value().link_layer)},
                 {"mtu_bytes", port.value().active_mtu_bytes},
                 {"mtu_bytes_max", port.value().mtu_bytes_max},
                 {"megabits", port.value().megabits()},
                 {"lid", port.value().lid}});
  auto& addresses = object["gids"] = Json::array();
  auto const opened = device.open(number);
  if (opened.has_error()) return object;
  if (auto const gids = opened.value().gids(); gids.has_value())
    for (auto const& entry : gids.value())
      addresses.push_back({{"index", entry.index},
                           {"gid", lend::text_of(entry.gid)},
                           {"type", name_of(entry.type)},
                           {"interface", network_interface_of(entry)}});
  auto const settings = opened.value().settings();
  if (settings.has_error()) {
    object["settings_error"] = settings.error().message();
    return object;
  }
  auto& all = object["settings"] = Json::array();
  for (auto const& [name, value, source] : settings.value())
    all.push_back({{"name", name}, {"value", value}, {"source", source}});
  return object;
}

Json json_of_device(Device const& device) {
  Json object{{"name", device.name()},
              {"kind", name_of(device.kind())},
              {"guid", lend::text_of(device.guid())}};
  auto const opened = device.open();
  if (opened.has_error()) {
    object["error"] = opened.error().message();
    return object;
  }
  auto const& context = opened.value();
  auto const& attributes = context.attributes();
  object["firmware"] = attributes.firmware;
  object["vendor_id"] = attributes.vendor_id;
  object["numa_node"] = attributes.numa_node ? Json(*attributes.numa_node) : Json();
  object["capabilities"] = json_of_capabilities(context.capabilities());
  object["limits"] = json_of_limits(context.limits());
  auto& ports = object["ports"] = Json::array();
  for (unsigned i = 1; i <= attributes.port_count; ++i)
    ports.push_back(json_of_port(device, context, static_cast<std::uint8_t>(i)));
  return object;
}

void print_json(std::vector<Device> const& devices, Finding const& open) {
  std::vector<Json> all;
  for (auto const& device : devices) all.push_back(json_of_device(device));
  Json const head{
      {"schema", 1}, {"version", command::version_of("lend")}, {"open_device", open.seen}};
  std::fputs(text_of(head, "devices", all).c_str(), stdout);
}

void print_environment(command::Look look) {
  for (auto const& [name, meaning, values] : base::variables) {
    auto const value = base::variable(name.data()).text;
    auto head = std::string{name} + (value.empty() ? " (not set)" : "=" + std::string{value});
    base::replace_controls(head);
    std::printf("%s\n%s", command::toned(look, command::Tone::strong, head).c_str(),
                command::wrapped("  ", meaning, 2, look.columns).c_str());
  }
}

}  // namespace

int info(CommandLine const& line) {
  if (line.environment) {
    print_environment(command::look_of_output());
    return 0;
  }
  auto const devices = list_devices();
  if (devices.has_error()) return complain(devices.error(), status_of_failure);
  auto const findings = examine();
  auto const open = std::ranges::find(findings, "open", &Finding::id);
  if (line.json) {
    print_json(devices.value(), *open);
  } else {
    print_devices(devices.value());
    auto const text = open->subject + ": " + open->seen;
    std::fputs(command::wrapped("", text, 2, command::look_of_output().columns).c_str(), stdout);
  }
  return open->level == FindingLevel::ok ? 0 : status_of_failure;
}

}  // namespace lend::tools
