// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads a port's GID table and chooses from it. Any thread.
#include <base/printable.hpp>
#include <verbs/device/gid_table.hpp>
#include <verbs/device/verb_error.hpp>

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace lend {

using verbs::ContextHandle;

namespace {

/// GID tables are indexed by one octet in an address vector. Source: struct ibv_global_route.
constexpr std::int32_t gid_entries_max = 256;
/// Limit of a list in a message; a port of many virtual networks has hundreds.
constexpr std::size_t entries_named_max = 8;

/// Source: RFC 4291 §2.5.6, fe80::/10; RFC 3927 §2.1, 169.254/16.
bool is_link_local(Gid const& gid) noexcept {
  if (verbs::is_ipv4_mapped(gid)) return gid[12] == 169 && gid[13] == 254;
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

std::int32_t entries_of(ContextHandle const& context) noexcept {
  return std::clamp<std::int32_t>(context.port.gid_count, 0, gid_entries_max);
}

std::string port_of(ContextHandle const& context) {
  return context.name + " port " + std::to_string(context.port.number);
}

/// What one entry held: an address, nothing, or an errno.
struct ReadEntry {
  GidEntry entry{};
  bool is_set = false;
  int error = 0;
};

ReadEntry read_entry(ContextHandle const& context, std::uint32_t index) noexcept {
  ibv_gid_entry raw{};
  int const result =
      context.provider().query_gid_ex(context.raw.get(), context.port.number, index, &raw);
  if (int const error = verbs::errno_of(result); error != 0) {
    // ENODATA: an empty entry. Source: ibv_query_gid_ex(3); Linux drivers/infiniband/core/cache.c.
    return {.error = error == ENODATA ? 0 : error};
  }
  ReadEntry read{.entry = {index, static_cast<GidType>(raw.gid_type), {}, raw.ndev_ifindex}};
  std::copy(std::begin(raw.gid.raw), std::end(raw.gid.raw), read.entry.gid.begin());
  read.is_set = read.entry.gid != Gid{};
  return read;
}

Error cannot_read(ContextHandle const& context, int error) {
  return verbs::verb_error(context.provider(), "ibv_query_gid_ex of " + port_of(context), error,
                           "No entry of the port's GID table could be used.");
}

/// `what` names the requested entry; the list has those that exist.
Error no_such_entry(ContextHandle const& context, std::string const& what) {
  auto const present = verbs::read_gids(context);
  return Error{
      Errc::not_found,
      what + "; " + port_of(context) + " has " +
          (present.has_value() ? verbs::text_of(present.value()) : present.error().message()) +
          ". Choose one of these, or give the network interface the address"};
}

Result<GidEntry> by_index(ContextHandle const& context, std::uint32_t index) {
  auto const count = entries_of(context);
  if (std::cmp_greater_equal(index, count))
    return no_such_entry(context, "gid_index " + std::to_string(index) +
                                      " is beyond the table of " + std::to_string(count) +
                                      " entries");
  ReadEntry const read = read_entry(context, index);
  if (read.error != 0) return cannot_read(context, read.error);
  if (!read.is_set)
    return no_such_entry(context, "gid_index " + std::to_string(index) + " is an empty entry");
  return read.entry;
}

Result<GidEntry> by_address(ContextHandle const& context, std::string const& address) {
  auto const wanted = verbs::gid_of_text(address);
  if (!wanted)
    return Error{Errc::invalid_argument,
                 "gid_address \"" + address +
                     "\" is no IP address; write it as 10.0.0.1 or as fe80::1, without a zone"};
  LEND_TRY(entries, verbs::read_gids(context));
  auto const found = std::find_if(entries.begin(), entries.end(),
                                  [&](GidEntry const& entry) { return entry.gid == *wanted; });
  if (found == entries.end())
    return no_such_entry(context, "gid_address " + text_of(*wanted) + " is no address of the port");
  return *found;
}

Result<GidEntry> by_network(ContextHandle const& context, std::string const& text) {
  auto const network = verbs::network_of_text(text);
  if (!network)
    return Error{Errc::invalid_argument,
                 "gid_network \"" + base::shown(text) +
                     "\" is no network; write it as 10.1.0.0/16 or as fd00::/8"};
  LEND_TRY(entries, verbs::read_gids(context));
  auto const found = std::ranges::find_if(
      entries, [&](GidEntry const& entry) { return verbs::is_in(*network, entry.gid); });
  if (found == entries.end())
    return no_such_entry(context, "no address of the port is in gid_network " + text);
  return *found;
}

Result<GidEntry> best(ContextHandle const& context) {
  // One call each: the search stops at the first entry of the best rank, mostly after a few.
  std::optional<GidEntry> found;
  int error = 0;
  auto const count = entries_of(context);
  for (std::int32_t index = 0; index < count; ++index) {
    ReadEntry const read = read_entry(context, static_cast<std::uint32_t>(index));
    if (read.error != 0) error = read.error;
    if (!read.is_set) continue;
    if (!found || verbs::rank_of(read.entry) < verbs::rank_of(*found)) found = read.entry;
    if (verbs::rank_of(*found) == 0) break;
  }
  if (found) return *found;
  if (error != 0) return cannot_read(context, error);
  if (context.port.link_layer == LinkLayer::ethernet)
    return Error{Errc::not_found, port_of(context) + " has no GID among its " +
                                      std::to_string(count) +
                                      "; give its network interface an IP address"};
  return GidEntry{};
}

}  // namespace

std::string_view name_of(GidType type) noexcept {
  switch (type) {
    case GidType::infiniband: return "InfiniBand";
    case GidType::roce_v1: return "RoCE v1";
    case GidType::roce_v2: return "RoCE v2";
  }
  return "unknown";
}

std::string network_interface_of(GidEntry const& entry) {
  char name[IF_NAMESIZE] = "";
  if (entry.network_interface == 0 || ::if_indextoname(entry.network_interface, name) == nullptr)
    return {};
  return name;
}

bool verbs::is_ipv4_mapped(Gid const& gid) noexcept {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

std::string text_of(Gid const& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (verbs::is_ipv4_mapped(gid))
    ::inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  else
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  return text;
}

std::optional<Gid> verbs::gid_of_text(std::string const& text) noexcept {
  Gid gid{};
  if (::inet_pton(AF_INET6, text.c_str(), gid.data()) == 1) return gid;
  gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (::inet_pton(AF_INET, text.c_str(), gid.data() + 12) == 1) return gid;
  return std::nullopt;
}

std::optional<verbs::Network> verbs::network_of_text(std::string_view text) {
  auto const slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  std::string const address{text.substr(0, slash)};
  auto const prefix = gid_of_text(address);
  if (!prefix) return std::nullopt;
  text.remove_prefix(slash + 1);
  unsigned bits = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  bool const is_ipv4 = address.find(':') == address.npos;
  if (error != std::errc{} || end != text.data() + text.size() || bits > (is_ipv4 ? 32u : 128u))
    return std::nullopt;
  return Network{*prefix, is_ipv4 ? 96 + bits : bits};
}

bool verbs::is_in(Network const& network, Gid const& gid) noexcept {
  auto const whole = network.bits / 8;
  if (!std::equal(gid.begin(), gid.begin() + whole, network.prefix.begin())) return false;
  unsigned const rest = network.bits % 8;
  return rest == 0 || (gid[whole] ^ network.prefix[whole]) >> (8 - rest) == 0;
}

std::string verbs::text_of(std::vector<GidEntry> const& entries) {
  std::string text;
  for (std::size_t i = 0; i < std::min(entries.size(), entries_named_max); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(entries[i].index) + ": " +
            lend::text_of(entries[i].gid);
    ((text += " (") += name_of(entries[i].type)) += ')';
  }
  if (entries.size() > entries_named_max)
    text += " and " + std::to_string(entries.size() - entries_named_max) + " more";
  return text.empty() ? "none" : text;
}

int verbs::rank_of(GidEntry const& entry) noexcept {
  if (entry.type == GidType::infiniband) return 0;
  int const form = is_link_local(entry.gid) ? 2 : verbs::is_ipv4_mapped(entry.gid) ? 0 : 1;
  return (entry.type == GidType::roce_v2 ? 0 : 3) + form;
}

Result<std::vector<GidEntry>> verbs::read_gids(ContextHandle const& context) {
  std::vector<GidEntry> entries;
  int error = 0;
  auto const count = entries_of(context);
  for (std::int32_t index = 0; index < count; ++index) {
    ReadEntry const read = read_entry(context, static_cast<std::uint32_t>(index));
    if (read.error != 0) error = read.error;
    if (read.is_set) entries.push_back(read.entry);
  }
  if (entries.empty() && error != 0) return cannot_read(context, error);
  std::stable_sort(entries.begin(), entries.end(), [](GidEntry const& a, GidEntry const& b) {
    return verbs::rank_of(a) < verbs::rank_of(b);
  });
  return entries;
}

Result<GidEntry> verbs::choose_gid(ContextHandle const& context, GidChoice const& choice) {
  int const choices =
      int{choice.index.has_value()} + int{!choice.address.empty()} + int{!choice.network.empty()};
  if (context.is_iwarp()) {
    if (choices > 0)
      return Error{
          Errc::unsupported,
          context.name +
              " is iWARP: rdma_cm connects it by IP addresses; leave gid_index, "
              "gid_address and gid_network out and name the address in cm_connect() or CmListener"};
    return GidEntry{};
  }
  if (choices > 1)
    return Error{Errc::invalid_argument,
                 "of gid_index, gid_address and gid_network more than one is set; use one"};
  if (choice.index) return by_index(context, *choice.index);
  if (!choice.address.empty()) return by_address(context, choice.address);
  if (!choice.network.empty()) return by_network(context, choice.network);
  return best(context);
}

}  // namespace lend
