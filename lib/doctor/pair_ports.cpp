// SPDX-License-Identifier: MIT OR Apache-2.0
// Lists ports, and writes them as words.
#include <base/environment.hpp>
#include <lend/open_device.hpp>

#include <base/printable.hpp>
#include <doctor/pair_ports.hpp>
#include <network/wire/address.hpp>
#include <verbs/device/gid_table.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace lend::doctor {

namespace {

constexpr std::size_t addresses_max = 64;  // that are tried, of a table that may have thousands
constexpr std::size_t ports_max = 64;
constexpr std::size_t name_bytes_max = 64;  // Source: IBV_SYSFS_NAME_MAX
constexpr std::size_t words_of_port = 6, words_of_address = 3, words_of_way = 5;

Error unknown_form(std::string_view what) {
  return {Errc::incompatible_peer, "the peer says something unknown of " + std::string{what} +
                                       "; use the same lend on both sides"};
}

/// What a peer calls something of its own.
Result<std::string> name_in(std::string const& word) {
  if (word.size() > name_bytes_max) return unknown_form("a name");
  return base::shown(word, name_bytes_max);
}

/// An IP address as lend writes it: no name that would have to be looked up.
Result<std::string> host_in(std::string const& word) {
  auto const gid = verbs::gid_of_text(word);
  if (!gid) return unknown_form("an address");
  return lend::text_of(*gid);
}

bool names_a_device() noexcept {
  return !base::variable("LEND_DEVICE").text.empty();
}

}  // namespace

std::vector<PairPort::Address> addresses_of_iwarp(Context const& context) {
  auto const gids = context.gids();
  if (!gids || gids.value().empty()) return {};
  auto const own = network::own_addresses_of_iwarp(gids.value().front().gid);
  if (!own) return {};
  std::vector<PairPort::Address> addresses;
  for (auto const& one : own.value())
    if (addresses.size() < addresses_max)
      addresses.push_back({0, one.is_ipv4 ? "IPv4" : "IPv6", one.text});
  return addresses;
}

Result<std::uint64_t> number_from(std::string const& word, std::uint64_t most) {
  auto const number = number_of(word);
  if (!number || *number > most) return unknown_form("a number");
  return *number;
}

Words Way::words() const {
  return {device, std::to_string(number), gid_index ? std::to_string(*gid_index) : "-",
          std::to_string(mtu_bytes), host.empty() ? "-" : host};
}

Result<Way> Way::in(Words const& words, std::size_t at) {
  if (words.size() < at + words_of_way) return unknown_form("a port");
  Way way{.device = words[at]};
  LEND_TRY(number, number_from(words[at + 1], std::numeric_limits<std::uint8_t>::max()));
  way.number = static_cast<std::uint8_t>(number);
  if (words[at + 2] != "-") {
    LEND_TRY(index, number_from(words[at + 2], std::numeric_limits<std::uint32_t>::max()));
    way.gid_index = static_cast<std::uint32_t>(index);
  }
  LEND_TRY(mtu, number_from(words[at + 3], std::numeric_limits<std::uint32_t>::max()));
  way.mtu_bytes = static_cast<std::uint32_t>(mtu);
  if (words[at + 4] != "-") {
    LEND_TRY(host, host_in(words[at + 4]));
    way.host = std::move(host);
  }
  return way;
}

Result<OpenPorts> OpenPorts::open(PairConnector const* by_cm) {
  OpenPorts open;
  open.by_cm_ = by_cm;
  if (names_a_device()) {
    if (auto const context = open_device()) open.add(context.value());  // examine() says why not
    return open;
  }
  LEND_TRY(devices, list_devices());
  for (auto const& device : devices) {
    auto const first = device.open();
    if (!first) continue;  // examine() says why
    for (unsigned i = 1; i <= first.value().attributes().port_count; ++i) {
      auto const number = static_cast<std::uint8_t>(i);
      if (number == first.value().port().number)
        open.add(first.value());
      else if (auto const other = device.open(number))
        open.add(other.value());
    }
  }
  return open;
}

void OpenPorts::add(Context const& context) {
  auto const& info = context.port();
  if (info.state != PortState::active) return;
  if (ports_.size() == ports_max) return;
  PairPort port{
      .device = context.name(),
      .number = info.number,
      .kind = std::string{name_of(context.kind())},
      .link_layer =
          std::string{context.capabilities().endpoints ? name_of(info.link_layer) : iwarp},
      .mtu_bytes = info.active_mtu_bytes};
  if (port.is_iwarp())
    port.addresses = addresses_of_iwarp(context);
  else if (auto const gids = context.gids())
    for (auto const& gid : gids.value())
      if (port.addresses.size() < addresses_max)
        port.addresses.push_back(
            {gid.index, std::string{name_of(gid.type)}, lend::text_of(gid.gid)});
  ports_.push_back(std::move(port));
  contexts_.push_back(context);
}

Result<Context> OpenPorts::at(std::string const& device, std::uint8_t number) const {
  for (std::size_t i = 0; i < ports_.size(); ++i)
    if (ports_[i].device == device && ports_[i].number == number) return contexts_[i];
  return Error{Errc::not_found, "no port " + base::shown(device) + '/' + std::to_string(number)};
}

Result<PairConnector const*> OpenPorts::by_cm() const {
  if (by_cm_ == nullptr) return Error{Errc::unsupported, "lend-cm is not in this doctor"};
  return by_cm_;
}

std::string OpenPorts::cm_obstacle() const {
  if (std::ranges::none_of(ports_, &PairPort::is_iwarp)) return {};
  auto const connector = by_cm();
  if (!connector) return connector.error().message();
  auto const ready = connector.value()->check();
  return ready ? std::string{} : ready.error().message();
}

Words words_of(std::vector<PairPort> const& ports) {
  Words words;
  for (auto const& port : ports) {
    words.insert(words.end(),
                 {port.device, std::to_string(port.number), port.kind, port.link_layer,
                  std::to_string(port.mtu_bytes), std::to_string(port.addresses.size())});
    for (auto const& address : port.addresses)
      words.insert(words.end(), {std::to_string(address.index), address.type, address.text});
  }
  return words;
}

Result<std::vector<PairPort>> ports_in(Words const& words) {
  std::vector<PairPort> ports;
  for (std::size_t at = 0; at < words.size();) {
    if (words.size() - at < words_of_port) return unknown_form("its ports");
    if (ports.size() == ports_max) return unknown_form("its ports");
    LEND_TRY(device, name_in(words[at]));
    LEND_TRY(kind, name_in(words[at + 2]));
    LEND_TRY(link_layer, name_in(words[at + 3]));
    PairPort port{
        .device = std::move(device), .kind = std::move(kind), .link_layer = std::move(link_layer)};
    LEND_TRY(number, number_from(words[at + 1], std::numeric_limits<std::uint8_t>::max()));
    LEND_TRY(mtu, number_from(words[at + 4], std::numeric_limits<std::uint32_t>::max()));
    LEND_TRY(count, number_from(words[at + 5], addresses_max));
    port.number = static_cast<std::uint8_t>(number);
    port.mtu_bytes = static_cast<std::uint32_t>(mtu);
    at += words_of_port;
    if ((words.size() - at) / words_of_address < count) return unknown_form("its addresses");
    for (std::uint64_t i = 0; i < count; ++i, at += words_of_address) {
      LEND_TRY(index, number_from(words[at], std::numeric_limits<std::uint32_t>::max()));
      LEND_TRY(type, name_in(words[at + 1]));
      LEND_TRY(text, port.is_iwarp() ? host_in(words[at + 2]) : name_in(words[at + 2]));
      port.addresses.push_back(
          {static_cast<std::uint32_t>(index), std::move(type), std::move(text)});
    }
    ports.push_back(std::move(port));
  }
  return ports;
}

}  // namespace lend::doctor
