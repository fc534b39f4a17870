// SPDX-License-Identifier: MIT OR Apache-2.0
// The present state of a device's ports. Any thread.
#include <verbs/port.hpp>
#include <verbs/queue_pair_states.hpp>
#include <verbs/verb_error.hpp>

namespace lend::verbs {

namespace {

PortInfo port_info(std::uint8_t number, ibv_port_attr const& port) noexcept {
  PortInfo info;
  info.number = number;
  info.state = static_cast<PortState>(port.state);
  info.link_layer = port.link_layer <= IBV_LINK_LAYER_ETHERNET
                        ? static_cast<LinkLayer>(port.link_layer)
                        : LinkLayer::unspecified;
  info.lid = port.lid;
  info.active_mtu_bytes = mtu_bytes_of(port.active_mtu);
  info.message_bytes_max = port.max_msg_sz;
  info.gid_count = port.gid_tbl_len;
  info.needs_global_route = (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  return info;
}

}  // namespace

Result<PortInfo> choose_port(Provider const& provider, ibv_context* context,
                             std::string const& device, std::uint8_t wanted, std::uint8_t count) {
  if (wanted > count)
    return Error{Errc::not_found, device + " has no port " + std::to_string(wanted) +
                                      "; its ports are 1 to " + std::to_string(count)};
  std::string states;
  unsigned const first = wanted == 0 ? 1 : wanted;
  unsigned const last = wanted == 0 ? count : wanted;
  for (unsigned i = first; i <= last; ++i) {
    auto const number = static_cast<std::uint8_t>(i);
    ibv_port_attr attributes{};
    int const result = provider.query_port(context, number, &attributes);
    int const error = errno_of(result);
    if (result != 0)
      return verb_error(provider, "ibv_query_port of " + device + " port " + std::to_string(i),
                        error);
    auto const port = port_info(number, attributes);
    if (port.state == PortState::active) {
      if (port.active_mtu_bytes != 0) return port;
      return Error{Errc::unsupported, device + " port " + std::to_string(i) + " reports MTU code " +
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
