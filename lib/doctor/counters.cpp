// SPDX-License-Identifier: MIT OR Apache-2.0
// The check of error counters. That they are above 0 tells nothing: they count since the driver was
// loaded, or since somebody reset them. That they grow while the process runs does.
#include <doctor/checks.hpp>

#include <algorithm>
#include <array>
#include <map>

namespace lend::doctor {

namespace {

enum class Cause : std::uint8_t { link, loss, receiver };

struct Counter {
  std::string_view name;
  Cause cause;
};

/// Source: Linux Documentation/ABI/stable/sysfs-class-infiniband, counters; hw_counters of
/// drivers/infiniband/sw/rxe/rxe_hw_counters.c and drivers/infiniband/hw/mlx5/counters.c.
constexpr auto error_counters = std::to_array<Counter>({
    {"symbol_error", Cause::link},
    {"link_error_recovery", Cause::link},
    {"link_downed", Cause::link},
    {"local_link_integrity_errors", Cause::link},
    {"port_rcv_errors", Cause::link},
    {"port_rcv_remote_physical_errors", Cause::link},
    {"excessive_buffer_overrun_errors", Cause::link},
    {"port_xmit_discards", Cause::loss},
    {"out_of_sequence", Cause::loss},
    {"packet_seq_err", Cause::loss},
    {"implied_nak_seq_err", Cause::loss},
    {"local_ack_timeout_err", Cause::loss},
    {"duplicate_request", Cause::loss},
    {"out_of_seq_request", Cause::loss},
    {"rcvd_seq_err", Cause::loss},
    {"completer_retry_err", Cause::loss},
    {"retry_exceeded_err", Cause::loss},
    {"req_transport_retries_exceeded", Cause::loss},
    {"out_of_buffer", Cause::receiver},
    {"rnr_nak_retry_err", Cause::receiver},
    {"send_rnr_err", Cause::receiver},
    {"rcvd_rnr_err", Cause::receiver},
    {"retry_rnr_exceeded_err", Cause::receiver},
    {"req_rnr_retries_exceeded", Cause::receiver},
});

struct Consequence {
  Cause cause;
  std::string_view why, mend;
};
constexpr auto consequences = std::to_array<Consequence>({
    {Cause::link, "the link itself has errors, or went down",
     "look at cable and switch port  (ethtool INTERFACE, ibdiagnet)"},
    {Cause::loss, "packets are lost or late, and sent again",
     "ethtool -S INTERFACE, and counters of the switch; lossless RoCE takes PFC or ECN"},
    {Cause::receiver, "messages come before a receive is posted, and are sent again",
     "post receives earlier, or more of them"},
});

/// By the counter's name.
using Values = std::map<std::string_view, std::uint64_t>;
/// Its file.
using Files = std::map<std::string_view, std::string>;

using Read = std::optional<std::string> (Host::*)(std::string const& path) const;

Values values_of(Host const& host, Files const& files, Read read) {
  Values values;
  for (auto const& [name, file] : files)
    // Where a driver does not count it, the file may have words.
    if (auto const text = (host.*read)(file))
      if (auto const value = number_of(*text)) values[name] = *value;
  return values;
}

Files files_of(Host const& host, std::string const& port) {
  Files files;
  for (auto const* folder : {"/counters/", "/hw_counters/"}) {
    auto const names = host.entries(port + folder);
    for (auto const& counter : error_counters)
      if (std::ranges::count(names, counter.name) != 0)
        files[counter.name] = port + folder + std::string{counter.name};
  }
  return files;
}

/// The two readings of a port.
struct Readings {
  std::string subject;
  Files files;
  Values before{};
  Values after{};
};

struct AllReadings {
  std::vector<Readings> ports{};
  bool are_two = false;
};

AllReadings read_twice(Host const& host) {
  AllReadings all;
  for (auto const& device : kernel_devices(host)) {
    auto const folder = "/sys/class/infiniband/" + device + "/ports/";
    for (auto const& number : host.entries(folder))
      all.ports.push_back({device + '/' + number, files_of(host, folder + number)});
  }
  for (auto& one : all.ports) one.before = values_of(host, one.files, &Host::read);
  bool const is_any =
      std::ranges::any_of(all.ports, [](auto const& one) { return !one.before.empty(); });
  all.are_two = is_any && host.waits();
  for (auto& one : all.ports)
    one.after = all.are_two ? values_of(host, one.files, &Host::read_again) : one.before;
  return all;
}

void add_to(std::string& list, std::string_view separator, std::string_view item) {
  if (!list.empty()) list += separator;
  list += item;
}

void examine_port(Readings const& port, bool is_read_twice, Notes& notes) {
  std::string grown, others, why, mend;
  for (auto const& consequence : consequences) {
    bool is_cause = false;
    for (auto const& counter : error_counters) {
      auto const after = port.after.find(counter.name);
      if (counter.cause != consequence.cause || after == port.after.end()) continue;
      auto const before = port.before.find(counter.name);
      auto const text = std::string{counter.name} + ' ' + std::to_string(after->second);
      if (before != port.before.end() && after->second > before->second) {
        is_cause = true;
        add_to(grown, ", ", text + " (+" + std::to_string(after->second - before->second) + ')');
      } else if (after->second > 0) {
        add_to(others, ", ", text);
      }
    }
    if (!is_cause) continue;
    add_to(why, "\n", consequence.why);
    add_to(mend, "\n", consequence.mend);
  }
  auto const time = std::to_string(counters_apart.count()) + " ms";
  if (!grown.empty()) return notes.warn(port.subject, "grew in " + time + ": " + grown, why, mend);
  if (others.empty()) others = "all are 0";
  notes.ok(port.subject, is_read_twice
                             ? "none grew in " + time + "; since the driver was loaded: " + others
                             : "since the driver was loaded: " + others);
}

}  // namespace

void check_counters(Host const& host, Notes& notes) {
  auto const [ports, are_two] = read_twice(host);
  if (ports.empty()) return notes.skip("this host", std::string{no_device});
  for (auto const& port : ports) {
    if (port.after.empty())
      notes.skip(port.subject, "Linux shows no error counters of it here");
    else
      examine_port(port, are_two, notes);
  }
}

}  // namespace lend::doctor
