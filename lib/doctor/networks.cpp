// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks of what a host does by itself with packets of RoCE: their class, and their port.
#include <doctor/ports.hpp>
#include <verbs/device/gid_table.hpp>

#include <algorithm>
#include <optional>

namespace lend::doctor {

namespace {

constexpr std::string_view not_roce = "concerns RoCE";

bool is_roce(Host const& host, Port const& port) {
  return port.is_ethernet && !is_iwarp(host, port);
}

std::optional<std::uint64_t> class_of(std::string_view text) {
  auto const value = number_of(text);
  bool const is_whole = text.find_first_not_of("0123456789") == text.npos;
  return is_whole && value && *value <= UINT8_MAX ? value : std::nullopt;
}

std::string text_of_class(std::uint64_t value) {
  auto const number = std::to_string(value);
  if (value == 0) return number;
  return number + " (DSCP " + std::to_string(value / 4) + ", ECN " + std::to_string(value % 4) +
         ')';
}

/// What a host gives packets of a port: the driver all of them, whatever programs choose; or
/// rdma_cm those of programs that choose none.
/// Source: mlx5_ib of MLNX_OFED, tclass_get_tclass(); Linux drivers/infiniband/core/cma_configfs.c,
/// and cma_resolve_iboe_route() of cma.c. Mooncake issue 1699; UCX pull request 11105.
struct HostClass {
  std::uint64_t value = 0;  // that of Linux, unless somebody sets it
  bool is_of_driver = false;
  std::string unknown{};  // why; empty: it is known

  [[nodiscard]] static HostClass of(Host const& host, Port const& port) {
    auto const by_driver =
        "/sys/class/infiniband/" + port.device() + "/tc/" + port.number() + "/traffic_class";
    auto const by_cm = "/sys/kernel/config/rdma_cm/" + port.device() + "/ports/" + port.number() +
                       "/default_roce_tos";
    auto const classes = host.driver_classes(by_driver);
    if (!classes && host.exists(by_driver)) return {.unknown = by_driver + " cannot be read"};
    if (classes && !classes->empty()) {
      auto const all = field_of(classes->front(), "Global tclass=");
      if (!all) return {.unknown = "the driver chooses by addresses: cat " + by_driver};
      auto const value = class_of(*all);
      return value ? HostClass{*value, true} : HostClass{.unknown = by_driver + " has no class"};
    }
    auto const text = host.read(by_cm);
    auto const value = class_of(text.value_or("0"));
    if (!value || (!text && host.exists(by_cm))) return {.unknown = by_cm + " cannot be read"};
    return {*value};
  }
};

/// The interfaces of a port's addresses that ARP finds: those of IPv4.
std::vector<std::string> ipv4_interfaces_of(Host const& host, Port const& port) {
  std::vector<std::string> interfaces;
  for (auto const& entry : addresses_of(host, port)) {
    if (!verbs::is_ipv4_mapped(entry.gid)) continue;
    auto const name =
        host.read(port.folder + "/gid_attrs/ndevs/" + std::to_string(entry.index)).value_or("");
    if (!name.empty() && std::ranges::count(interfaces, name) == 0) interfaces.push_back(name);
  }
  return interfaces;
}

/// What is in force of an interface: the greater one of its own value and that of `all`.
/// Source: Linux Documentation/networking/ip-sysctl.rst, of each of these names.
std::optional<std::uint64_t> setting_of(Host const& host, std::string const& interface,
                                        std::string const& name) {
  std::string const folder = "/proc/sys/net/ipv4/conf/";
  auto const own = number_of(host.read(folder + interface + '/' + name).value_or(""));
  auto const all = number_of(host.read(folder + "all/" + name).value_or(""));
  if (!own || !all) return std::nullopt;
  return std::max(*own, *all);
}

/// How an interface beside others in one network is set.
struct Settings {
  std::optional<std::uint64_t> ignore, announce, filter, reverse_filter;

  [[nodiscard]] static Settings of(Host const& host, std::string const& interface) {
    auto const value = [&](char const* name) { return setting_of(host, interface, name); };
    return {value("arp_ignore"), value("arp_announce"), value("arp_filter"), value("rp_filter")};
  }
  [[nodiscard]] bool are_known() const noexcept {
    return ignore && announce && filter && reverse_filter;
  }
};

/// What is wrong where ports share a network, and how to mend it.
/// Source: ip-sysctl.rst: arp_ignore 1 and 2 answer for the interface's own addresses, 8 for none;
/// arp_announce 1 takes any address of the network; rp_filter 1 drops what comes by an interface
/// other than the best route back. IBM, Linux on Z, "High-availability considerations" of SMC-R.
struct Faults {
  std::string seen{}, why{}, mend{};

  explicit Faults(Settings const& settings) {
    if (auto const value = *settings.ignore; value != 1 && value != 2 && value != 8)
      add("arp_ignore", value, 1);
    if (auto const value = *settings.announce; value < 2) add("arp_announce", value, 2);
    if (!seen.empty())
      why = "Linux gives peers another port's MAC address for it: packets go to the wrong port";
    if (*settings.reverse_filter == 1) {
      add("rp_filter", 1, 2);
      why += why.empty() ? "" : ", and ";
      why += "Linux drops what comes by a port that is not the route back";
    }
  }

 private:
  void add(std::string const& name, std::uint64_t value, int wanted) {
    seen += (seen.empty() ? "" : ", ") + name + ' ' + std::to_string(value);
    mend += (mend.empty() ? "" : "\n") + ("sudo sysctl net.ipv4.conf.all." + name) + '=' +
            std::to_string(wanted);
  }
};

/// An active port of RoCE.
struct RocePort {
  std::string subject{};
  std::vector<std::string> interfaces{};
};

/// "fake1/1 (eth8)", ...: other ports, of which `interfaces` has some.
std::string text_of_others(std::vector<RocePort> const& ports, std::string const& subject,
                           std::vector<std::string> const& interfaces) {
  std::string text;
  for (auto const& port : ports)
    for (auto const& name : port.interfaces)
      if (port.subject != subject && std::ranges::count(interfaces, name) != 0)
        text += (text.empty() ? "" : ", ") + port.subject + " (" + name + ')';
  return text;
}

}  // namespace

void check_classes(Host const& host, Notes& notes) {
  for_each_active(host, notes, [&](Port const& port) {
    if (!is_roce(host, port)) return notes.skip(port.subject, std::string{not_roce});
    auto const variable = host.variable("LEND_TRAFFIC_CLASS");
    auto const own = class_of(variable.value_or("0"));
    if (!own) return notes.skip(port.subject, "LEND_TRAFFIC_CLASS is no class: see environment");
    auto const others = HostClass::of(host, port);
    if (!others.unknown.empty()) return notes.skip(port.subject, others.unknown);
    auto const text = text_of_class(others.value);
    auto const chosen = variable ? "LEND_TRAFFIC_CLASS is " + text_of_class(*own)
                                 : std::string{"connect() takes 0, the default"};
    auto const mend = "export LEND_TRAFFIC_CLASS=" + std::to_string(others.value);
    bool const is_same = *own == others.value;
    if (others.is_of_driver && variable && !is_same)
      notes.warn(port.subject, chosen + ", and the driver gives all packets " + text,
                 "packets go in the driver's class, and peers learn another one", mend);
    else if (others.is_of_driver)
      notes.ok(port.subject, text + ", which the driver gives all packets");
    else if (others.value != 0 && !is_same)
      notes.warn(port.subject, chosen + ", and rdma_cm gives programs that choose none " + text,
                 "lend's packets are not in the class of the others: switches may drop them", mend);
    else
      notes.ok(port.subject, chosen + (is_same && variable ? ", as rdma_cm's default"
                                                           : "; the host shows no other"));
  });
}

void check_subnets(Host const& host, Notes& notes) {
  std::vector<RocePort> ports;
  for (auto const& port : ports_of(host))
    if (port.is_active() && is_roce(host, port))
      ports.push_back({port.subject, ipv4_interfaces_of(host, port)});
  for_each_active(host, notes, [&](Port const& port) {
    auto const own = std::ranges::find(ports, port.subject, &RocePort::subject);
    if (own == ports.end()) return notes.skip(port.subject, std::string{not_roce});
    if (own->interfaces.empty()) return notes.skip(port.subject, "it has no address of IPv4");
    std::string shared;
    for (auto const& interface : own->interfaces) {
      auto const beside = host.interfaces_beside(interface);
      if (!beside) return notes.skip(port.subject, "/proc/self/net/route cannot be read");
      if (beside->empty())
        return notes.skip(port.subject, interface + " has no network in the main table of routes");
      auto const others = text_of_others(ports, port.subject, *beside);
      if (others.empty()) continue;
      (shared += shared.empty() ? "" : "; ") += interface + " is in one network with " + others;
      auto const settings = Settings::of(host, interface);
      if (!settings.are_known())
        return notes.skip(port.subject, shared + "; its settings of ARP cannot be read");
      if (*settings.filter != 0)
        return notes.skip(port.subject, shared + "; arp_filter 1: its routes decide");
      if (Faults const faults{settings}; !faults.seen.empty())
        return notes.warn(port.subject, shared + ": " + faults.seen, faults.why, faults.mend);
    }
    notes.ok(port.subject, shared.empty() ? "no other port of RoCE is in its network"
                                          : shared + "; each answers for itself");
  });
}

}  // namespace lend::doctor
