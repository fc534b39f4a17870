// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks that open devices as a program does.
#include <base/printable.hpp>
#include <doctor/checks.hpp>
#include <soft/peers/host.hpp>
#include <verbs/device/built_with.hpp>
#include <verbs/device/rdma_core_library.hpp>

#include <sys/statvfs.h>

#include <cstdlib>

namespace lend::doctor {

namespace {

/// "/usr/lib/…/libibverbs.so.1.14.44.0": the file's own name has the version of rdma-core last.
std::string path_of_libibverbs() {
  char const* const name = verbs::libibverbs().path();
  if (*name == '\0')
    return verbs::libibverbs_obstacle().empty() ? "libibverbs in this program" : "no libibverbs";
  char* const whole = ::realpath(name, nullptr);
  std::string path{whole != nullptr ? whole : name};
  std::free(whole);
  return path;
}

std::string text_of(Opened const& opened) {
  return opened.name + " (" + std::string{name_of(opened.kind)} + "), port " + opened.port;
}

/// Why open_device() takes a device of this kind.
std::string reason_for(Host const& host, DeviceKind kind) {
  if (auto const variable = host.variable("LEND_DEVICE"))
    return ": LEND_DEVICE=" + base::shown(*variable) + " asks for it";
  switch (kind) {
    case DeviceKind::card: return ": a card's first active port comes first";
    case DeviceKind::software_rdma: return ": SoftRoCE comes next where there is no card";
    case DeviceKind::soft: return ": it stands in where the host has no RDMA device";
  }
  return {};
}

void add_name(std::string& names, std::string const& name) {
  (names += names.empty() ? "" : ", ") += name;
}

}  // namespace

void check_versions(Host const& host, Notes& notes) {
  notes.ok("lend", "version " LEND_VERSION ", Linux " +
                       host.read("/proc/sys/kernel/osrelease").value_or("unknown") + ", " +
                       path_of_libibverbs());
}

void check_soft_device(Host const& host, Notes& notes) {
  auto const opened = host.opened(DeviceChoice::soft());
  auto const text = opened.has_error() ? opened.error().message() : "";
  if (opened.has_error())
    return notes.fail(
        "soft device", text, "the soft device cannot be opened",
        text.find("LEND_SOFT_DIRECTORY") == text.npos
            ? ""
            : "export LEND_SOFT_DIRECTORY=$HOME/.lend  (in all processes that connect)");
  auto const room = host.answer("room /dev/shm", [&]() -> Answer {
    struct statvfs status {};
    if (::statvfs((host.root + "/dev/shm").c_str(), &status) != 0) return std::nullopt;
    return text_of_bytes(status.f_bavail * status.f_frsize);
  });
  notes.ok("soft device",
           opened.value().name + " opens" + (room ? "; /dev/shm has " + *room + " left" : ""));
}

void check_cross_memory(Host const& host, Notes& notes) {
  // The soft device's own probe: it reads and writes a byte of this process as a peer would.
  auto const obstacle = host.answer("obstacle of cross-memory attach", [] {
    auto const probed = soft::cross_memory();
    return probed.possible() ? Answer{} : Answer{probed.obstacle};
  });
  if (!obstacle) return notes.ok("soft device", "peers can reach memory of this process");
  notes.warn("soft device", *obstacle,
             "only memory of allocate() is written and read from afar: other memory is refused, as "
             "it is registered or as the request is posted",
             obstacle->find("yama") != obstacle->npos
                 ? "sudo sysctl kernel.yama.ptrace_scope=1"
                 : "docker run --cap-add=SYS_PTRACE …, or ProtectionDomain::allocate() instead");
}

void check_opening(Host const& host, Notes& notes) {
  auto const opened = host.opened(DeviceChoice::either());
  if (opened.has_value())
    return notes.ok("open_device()",
                    "takes " + text_of(opened.value()) + reason_for(host, opened.value().kind));
  std::string mend;
  if (host.variable("LEND_DEVICE"))
    mend = "unset LEND_DEVICE";
  else if (host.opened(DeviceChoice::soft()).has_value())
    mend = "export LEND_DEVICE=soft  (the soft device, within this host)";
  notes.fail("open_device()", opened.error().message(),
             "a program that does not choose gets this error", mend);
}

void check_use(Host const& host, Notes& notes) {
  std::string endpoints;
  std::string connections;
  auto const note = [&](Result<Opened> const& opened) {
    if (opened.has_error()) return;
    auto const& [name, kind, port, by_endpoints, by_rdma_cm] = opened.value();
    if (by_endpoints) add_name(endpoints, name);
    if (by_rdma_cm && host.error_of_opening("/dev/infiniband/rdma_cm") == 0)
      add_name(connections, name);
  };
  auto const names = host.device_names();
  if (names.has_value())
    for (auto const& name : names.value()) note(host.opened(DeviceChoice::named(name)));
  else
    note(host.opened(DeviceChoice::soft()));
  auto const seen = "listen() and connect() on " + (endpoints.empty() ? "no device" : endpoints) +
                    ", rdma_cm on " + (connections.empty() ? "no device" : connections);
  if (!endpoints.empty() || !connections.empty()) return notes.ok("this process can use", seen);
  notes.fail("this process can use", seen, "no device can be opened; see the findings above");
}

}  // namespace lend::doctor
