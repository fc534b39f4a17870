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

/// Members of an object of JSON, one by one.
class Members {
 public:
  Members& add(std::string_view name, std::string const& json) {
    text_ += text_.empty() ? "" : ", ";
    ((text_ += json_of(name)) += ": ") += json;
    return *this;
  }
  Members& add_text(std::string_view name, std::string_view text) {
    return add(name, json_of(text));
  }
  Members& add_number(std::string_view name, std::uint64_t number) {
    return add(name, std::to_string(number));
  }
  Members& add_truth(std::string_view name, bool is_so) {
    return add(name, is_so ? "true" : "false");
  }
  [[nodiscard]] std::string object() const { return '{' + text_ + '}'; }

 private:
  std::string text_{};
};

std::string array_of(std::vector<std::string> const& values) {
  std::string text;
  for (auto const& value : values) (text += text.empty() ? "" : ", ") += value;
  return '[' + text + ']';
}

std::string json_of_limits(DeviceLimits const& limits) {
  auto const number = [](auto value) { return static_cast<std::uint64_t>(value); };
  return Members{}
      .add_number("queue_pairs_max", number(limits.queue_pairs_max))
      .add_number("completion_queues_max", number(limits.completion_queues_max))
      .add_number("protection_domains_max", number(limits.protection_domains_max))
      .add_number("regions_max", number(limits.regions_max))
      .add_number("region_bytes_max", limits.region_bytes_max)
      .add_number("work_requests_max", number(limits.work_requests_max))
      .add_number("elements_max", number(limits.elements_max))
      .add_number("completions_max", number(limits.completions_max))
      .add_number("receive_queues_max", number(limits.receive_queues_max))
      .add_number("shared_receives_max", number(limits.shared_receives_max))
      .add_number("shared_receive_elements_max", number(limits.shared_receive_elements_max))
      .add_number("read_elements_max", number(limits.read_elements_max))
      .add_number("reads_in_flight_max", number(limits.reads_in_flight_max))
      .add_number("reads_served_max", number(limits.reads_served_max))
      .add_number("address_handles_max", number(limits.address_handles_max))
      .add_number("memory_windows_max", number(limits.memory_windows_max))
      .add_number("multicast_groups_max", number(limits.multicast_groups_max))
      .add_number("partition_keys_max", limits.partition_keys_max)
      .object();
}

std::string json_of_port(Device const& device, Context const& context, std::uint8_t number) {
  Members members;
  members.add_number("number", number);
  auto const port = context.query_port(number);
  if (port.has_error()) return members.add_text("error", port.error().message()).object();
  members.add_text("state", name_of(port.value().state))
      .add_text("link_layer", name_of(port.value().link_layer))
      .add_number("mtu_bytes", port.value().active_mtu_bytes)
      .add_number("mtu_bytes_max", port.value().mtu_bytes_max)
      .add_number("megabits", port.value().megabits())
      .add_number("lid", port.value().lid);
  std::vector<std::string> addresses;
  auto const opened = device.open(number);
  if (opened.has_value())
    if (auto const gids = opened.value().gids(); gids.has_value())
      for (auto const& entry : gids.value())
        addresses.push_back(Members{}
                                .add_number("index", entry.index)
                                .add_text("gid", lend::text_of(entry.gid))
                                .add_text("type", name_of(entry.type))
                                .add_text("interface", network_interface_of(entry))
                                .object());
  members.add("gids", array_of(addresses));
  if (opened.has_error()) return members.object();
  auto const settings = opened.value().settings();
  if (settings.has_error())
    return members.add_text("settings_error", settings.error().message()).object();
  std::vector<std::string> all;
  for (auto const& [name, value, source] : settings.value())
    all.push_back(Members{}
                      .add_text("name", name)
                      .add_text("value", value)
                      .add_text("source", source)
                      .object());
  return members.add("settings", array_of(all)).object();
}

std::string json_of_device(Device const& device) {
  Members members;
  members.add_text("name", device.name())
      .add_text("kind", name_of(device.kind()))
      .add_text("guid", lend::text_of(device.guid()));
  auto const opened = device.open();
  if (opened.has_error()) return members.add_text("error", opened.error().message()).object();
  auto const& context = opened.value();
  auto const& attributes = context.attributes();
  auto const can = context.capabilities();
  std::vector<std::string> ports;
  for (unsigned i = 1; i <= attributes.port_count; ++i)
    ports.push_back(json_of_port(device, context, static_cast<std::uint8_t>(i)));
  members.add_text("firmware", attributes.firmware)
      .add_number("vendor_id", attributes.vendor_id)
      .add("numa_node",
           attributes.numa_node ? std::to_string(*attributes.numa_node) : std::string{"null"})
      .add("capabilities", Members{}
                               .add_truth("endpoints", can.endpoints)
                               .add_truth("rdma_cm", can.rdma_cm)
                               .add_truth("immediates", can.immediates)
                               .add_truth("unreliable", can.unreliable)
                               .add_truth("datagrams", can.datagrams)
                               .add_truth("atomics", can.atomics)
                               .add_truth("windows", can.windows)
                               .add_truth("peer_loans", can.peer_loans)
                               .add_truth("paging_on_demand", can.paging_on_demand)
                               .add_truth("timestamps", can.timestamps)
                               .object())
      .add("limits", json_of_limits(context.limits()))
      .add("ports", array_of(ports));
  return members.object();
}

void print_json(std::vector<Device> const& devices, Finding const& open) {
  std::vector<std::string> all;
  for (auto const& device : devices) all.push_back("\n  " + json_of_device(device));
  std::printf("%s\n", Members{}
                          .add_number("schema", 1)
                          .add_text("version", command::version_of("lend"))
                          .add_text("open_device", open.seen)
                          .add("devices", array_of(all))
                          .object()
                          .c_str());
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
    std::printf("%s: %s\n", open->subject.c_str(), open->seen.c_str());
  }
  return open->level == FindingLevel::ok ? 0 : status_of_failure;
}

}  // namespace lend::tools
