// SPDX-License-Identifier: MIT OR Apache-2.0
// The present state of a device's ports. Any thread.
#include <verbs/device/port.hpp>
#include <verbs/device/verb_error.hpp>

#include <endian.h>

#include <cerrno>

namespace lend::verbs {

namespace {

/// Source: ibv_query_port(3), active_width.
std::uint8_t lanes_of(std::uint8_t width) noexcept {
  switch (width) {
    case 1: return 1;
    case 2: return 4;
    case 4: return 8;
    case 8: return 12;
    case 16: return 2;
    default: return 0;
  }
}

/// Source: ibv_query_port(3), active_speed; Linux drivers/infiniband/core/sysfs.c, rate_show().
std::uint32_t lane_megabits_of(std::uint8_t speed) noexcept {
  switch (speed) {
    case 1: return 2'500;      // SDR
    case 2: return 5'000;      // DDR
    case 4:                    // QDR
    case 8: return 10'000;     // FDR10
    case 16: return 14'000;    // FDR
    case 32: return 25'000;    // EDR
    case 64: return 50'000;    // HDR
    case 128: return 100'000;  // NDR
    default: return 0;
  }
}

PortInfo port_info(std::uint8_t number, ibv_port_attr const& port) noexcept {
  PortInfo info;
  info.number = number;
  info.state = static_cast<PortState>(port.state);
  info.link_layer = port.link_layer <= IBV_LINK_LAYER_ETHERNET
                        ? static_cast<LinkLayer>(port.link_layer)
                        : LinkLayer::unspecified;
  info.physical_state =
      port.phys_state <= 7 ? static_cast<PhysicalState>(port.phys_state) : PhysicalState::unknown;
  info.lid = port.lid;
  info.subnet_manager_lid = port.sm_lid;
  info.lid_mask_bits = port.lmc;
  info.active_mtu_bytes = mtu_bytes_of(port.active_mtu);
  info.mtu_bytes_max = mtu_bytes_of(port.max_mtu);
  info.message_bytes_max = port.max_msg_sz;
  info.gid_count = port.gid_tbl_len;
  info.partition_key_count = port.pkey_tbl_len;
  info.lanes = lanes_of(port.active_width);
  info.lane_megabits = lane_megabits_of(port.active_speed);
  info.needs_global_route = (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  return info;
}

Error no_such_port(std::string const& device, unsigned wanted, unsigned count) {
  return Error{Errc::not_found, device + " has no port " + std::to_string(wanted) +
                                    "; its ports are 1 to " + std::to_string(count)};
}

std::string port_of(std::string const& device, unsigned number) {
  return device + " port " + std::to_string(number);
}

}  // namespace

Result<PortInfo> read_port(ContextHandle const& context, std::uint8_t number) {
  auto const count = context.attributes.port_count;
  if (number == 0 || number > count) return no_such_port(context.name, number, count);
  ibv_port_attr attributes{};
  int const result = context.provider().query_port(context.raw.get(), number, &attributes);
  if (result == 0) return port_info(number, attributes);
  int const error = errno_of(result);
  return verb_error(context.provider(), "ibv_query_port of " + port_of(context.name, number),
                    error);
}

Result<std::uint16_t> partition_key(ContextHandle const& context, int index) {
  std::uint16_t key = 0;
  errno = 0;
  int const result =
      context.provider().query_pkey(context.raw.get(), context.port.number, index, &key);
  int const error = errno_of(result);
  if (result == 0) return be16toh(key);
  return verb_error(context.provider(),
                    "ibv_query_pkey of " + port_of(context.name, context.port.number), error);
}

Result<PortInfo> choose_port(Provider const& provider, ibv_context* context,
                             std::string const& device, std::uint8_t wanted, std::uint8_t count) {
  if (wanted > count) return no_such_port(device, wanted, count);
  std::string states;
  unsigned const first = wanted == 0 ? 1 : wanted;
  unsigned const last = wanted == 0 ? count : wanted;
  for (unsigned i = first; i <= last; ++i) {
    auto const number = static_cast<std::uint8_t>(i);
    ibv_port_attr attributes{};
    int const result = provider.query_port(context, number, &attributes);
    int const error = errno_of(result);
    if (result != 0) return verb_error(provider, "ibv_query_port of " + port_of(device, i), error);
    auto const port = port_info(number, attributes);
    if (port.state == PortState::active) {
      if (port.active_mtu_bytes != 0) return port;
      return Error{Errc::unsupported, port_of(device, i) + " reports MTU code " +
                                          std::to_string(attributes.active_mtu) +
                                          ", which verbs do not define"};
    }
    states += (states.empty() ? "port " : ", port ") + std::to_string(i) + " is ";
    states += name_of(port.state);
  }
  if (states.empty()) states = "it has no ports";
  return Error{Errc::not_found,
               "no usable port on " + device + ": " + states +
                   "; bring its cable and network interface up (`ip link set DEV up`; a "
                   "port in INIT or ARMED waits for a subnet manager), or choose "
                   "another port or device"};
}

}  // namespace lend::verbs
