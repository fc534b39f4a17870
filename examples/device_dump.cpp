// SPDX-License-Identifier: MIT OR Apache-2.0
// What lend knows of each device of this host, and of its ports.
#include <lend/lend.hpp>

#include <iostream>

static lend::Result<void> dump_port(lend::Context const& device, std::uint8_t number) {
  LEND_TRY(port, device.query_port(number));
  std::cout << "  port " << int{port.number} << ": " << lend::name_of(port.state) << ", "
            << lend::name_of(port.physical_state) << ", " << lend::name_of(port.link_layer)
            << ", LID " << port.lid << ", subnet manager's " << port.subnet_manager_lid
            << "\n    MTU " << port.active_mtu_bytes << " of " << port.mtu_bytes_max
            << " bytes, messages up to " << port.message_bytes_max << " bytes, " << int{port.lanes}
            << " lanes of " << port.lane_megabits << " Mb/s\n";
  if (number != device.port().number) return lend::success();
  LEND_TRY(keys, device.partition_keys());
  for (std::uint16_t key : keys)
    std::cout << "    partition 0x" << std::hex << key << std::dec << '\n';
  LEND_TRY(gids, device.gids());
  for (lend::GidEntry const& gid : gids) {
    std::cout << "    GID " << gid.index << ": " << lend::text_of(gid.gid) << " ("
              << lend::name_of(gid.type) << ")";
    if (auto const name = lend::network_interface_of(gid); !name.empty())
      std::cout << " of " << name;
    std::cout << '\n';
  }
  return lend::success();
}

static lend::Result<void> dump(lend::Device const& closed) {
  std::cout << closed.name() << " (" << lend::name_of(closed.kind()) << "), GUID "
            << lend::text_of(closed.guid());
  if (auto const index = closed.kernel_index()) std::cout << ", kernel index " << *index;
  std::cout << '\n';
  LEND_TRY(device, closed.open());
  lend::DeviceAttributes const& is = device.attributes();
  lend::DeviceLimits const& limits = device.limits();
  lend::DeviceCapabilities const can = device.capabilities();
  std::cout << "  vendor 0x" << std::hex << is.vendor_id << ", part 0x" << is.vendor_part_id
            << std::dec << ", hardware " << is.hardware_version << ", firmware " << is.firmware;
  if (is.numa_node) std::cout << ", NUMA node " << *is.numa_node;
  if (is.clock_kilohertz != 0) std::cout << ", clock of " << is.clock_kilohertz << " kHz";
  std::cout << "\n  atomic operations: " << lend::name_of(is.atomics)
            << ", immediates: " << (can.immediates ? "yes" : "no")
            << ", endpoints: " << (can.endpoints ? "yes" : "no") << "\n  at most "
            << limits.queue_pairs_max << " queue pairs of " << limits.work_requests_max
            << " requests of " << limits.elements_max << " elements, "
            << limits.completion_queues_max << " completion queues of " << limits.completions_max
            << ", " << limits.receive_queues_max << " shared receive queues of "
            << limits.shared_receives_max
            << "\n  reads of a queue pair: " << limits.reads_in_flight_max << " in flight, "
            << limits.reads_served_max << " served\n";
  for (unsigned port = 1; port <= is.port_count; ++port) {
    LEND_TRYV(dump_port(device, static_cast<std::uint8_t>(port)));
  }
  return lend::success();
}

int main() {
  auto const devices = lend::list_devices();
  if (!devices) {
    std::cerr << "device_dump: " << devices.error().describe() << '\n';
    return 1;
  }
  for (lend::Device const& device : devices.value())
    if (auto const done = dump(device); !done)
      std::cout << "  cannot be used: " << done.error().message() << '\n';
}
