// SPDX-License-Identifier: MIT OR Apache-2.0
// Ports in sysfs. Source: Linux Documentation/ABI/stable/sysfs-class-infiniband.
#pragma once

#include <lend/verbs/gid.hpp>

#include <doctor/checks.hpp>

#include <string>
#include <vector>

namespace lend::doctor {

struct Port {
  std::string subject, folder;
  std::string state{};  // "ACTIVE"
  bool is_ethernet = false;

  [[nodiscard]] bool is_active() const noexcept { return state == "ACTIVE"; }
  [[nodiscard]] std::string device() const { return subject.substr(0, subject.find('/')); }
  [[nodiscard]] std::string number() const { return subject.substr(subject.find('/') + 1); }
};

[[nodiscard]] std::vector<Port> ports_of(Host const& host);
/// The addresses of a port, best first, as verbs::read_gids() of the opened one.
[[nodiscard]] std::vector<GidEntry> addresses_of(Host const& host, Port const& port);
[[nodiscard]] bool is_iwarp(Host const& host, Port const& port);

/// Calls `examine` for each active port; says so if there is none.
template <class Examine>
void for_each_active(Host const& host, Notes& notes, Examine&& examine) {
  bool is_any = false;
  for (auto const& port : ports_of(host)) {
    if (!port.is_active()) continue;
    is_any = true;
    examine(port);
  }
  if (!is_any) notes.skip("this host", "no RDMA device has an active port");
}

}  // namespace lend::doctor
