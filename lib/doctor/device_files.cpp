// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks of what lies between the kernel's devices and a program: modules, device files, drivers.
#include <doctor/checks.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lend::doctor {

namespace {

constexpr std::string_view files_folder = "/dev/infiniband/";
constexpr std::string_view connection_file = "/dev/infiniband/rdma_cm";

/// "uverbs0", the name of a device's file; empty if ib_uverbs does not know the device.
/// Source: Linux Documentation/ABI/stable/sysfs-class-infiniband, infiniband_verbs/…/ibdev.
std::string file_name_of(Host const& host, std::string const& device) {
  std::string const folder = "/sys/class/infiniband_verbs/";
  for (auto const& name : host.entries(folder))
    if (host.read(folder + name + "/ibdev") == device) return name;
  return {};
}

std::string mend_of_files(Host const& host) {
  return is_in_container(host) ? "docker run --device=/dev/infiniband …" : "sudo udevadm trigger";
}

/// Device and path for each device that has a file to be; skips what check_modules() tells.
template <class Examine>
void for_each_file(Host const& host, Notes& notes, Examine&& examine) {
  auto const devices = kernel_devices(host);
  if (devices.empty()) return notes.skip("this host", std::string{no_device});
  for (auto const& device : devices) {
    auto const name = file_name_of(host, device);
    if (name.empty())
      notes.skip(device, "ib_uverbs does not know it, so it has no file");
    else
      examine(device, std::string{files_folder} + name);
  }
}

}  // namespace

void check_devices(Host const& host, Notes& notes) {
  auto const devices = kernel_devices(host);
  if (devices.empty())
    return notes.skip(
        "this host", std::string{no_device},
        "sudo rdma link add rxe0 type rxe netdev eth0  (SoftRoCE on the interface eth0)");
  for (auto const& device : devices) {
    auto const folder = "/sys/class/infiniband/" + device;
    notes.ok(device, "firmware " + host.read(folder + "/fw_ver").value_or("unknown") + ", " +
                         std::to_string(host.entries(folder + "/ports").size()) + " port(s)");
  }
}

void check_modules(Host const& host, Notes& notes) {
  if (kernel_devices(host).empty()) return notes.skip("this host", std::string{no_device});
  auto const check = [&](std::string const& module, char const* sign, auto&& missing) {
    if (host.exists("/sys/module/" + module) || host.exists(sign))
      notes.ok(module, "is there");
    else
      missing(module);
  };
  check("ib_uverbs", "/sys/class/infiniband_verbs", [&](std::string const& module) {
    notes.fail(module, "is not loaded", "no program can open an RDMA device",
               "sudo modprobe ib_uverbs");
  });
  check("rdma_ucm", "/sys/class/misc/rdma_cm", [&](std::string const& module) {
    notes.warn(module, "is not loaded",
               "cm_connect() and CmListener fail unless the kernel can load it for them",
               "sudo modprobe rdma_ucm");
  });
}

void check_device_files(Host const& host, Notes& notes) {
  for_each_file(host, notes, [&](std::string const& device, std::string const& path) {
    if (host.exists(path)) return notes.ok(device, path);
    notes.fail(device, path + " is not there",
               "the kernel has the device, but this process cannot open it; a container gets the "
               "files only if it is started with them",
               mend_of_files(host));
  });
}

void check_permissions(Host const& host, Notes& notes) {
  for_each_file(host, notes, [&](std::string const& device, std::string const& path) {
    auto const error = host.error_of_opening(path);
    if (error == 0) return notes.ok(device, path + " can be opened");
    if (error == ENOENT) return notes.skip(device, path + " is not there");
    // Root is refused only by a cgroup or a security module. Source: cgroup-v2.rst, device
    // controller.
    auto const is_denied = error == EACCES;
    notes.fail(device, path + ": " + std::strerror(error),
               is_denied ? "this user may not read and write the file"
                         : "the kernel refuses it in spite of its mode, as for containers",
               is_denied
                   ? "sudo chmod 0666 " + host.root + path + "  (udev does so by rdma-core's rule)"
                   : mend_of_files(host));
  });
  std::string const connections{connection_file};
  if (kernel_devices(host).empty() || !host.exists(connections)) return;
  auto const error = host.error_of_opening(connections);
  if (error == 0) return notes.ok("rdma_cm", connections + " can be opened");
  notes.warn("rdma_cm", connections + ": " + std::strerror(error),
             "cm_connect() and CmListener fail", "sudo chmod 0666 " + host.root + connections);
}

void check_drivers(Host const& host, Notes& notes) {
  auto const devices = kernel_devices(host);
  if (devices.empty()) return notes.skip("this host", std::string{no_device});
  if (auto const obstacle = host.obstacle_of_libibverbs(); !obstacle.empty())
    return notes.fail("libibverbs", "it cannot be loaded: " + obstacle,
                      "no device of the kernel can be opened",
                      "sudo apt install libibverbs1 ibverbs-providers  (or rdma-core)");
  auto const listed = host.device_names();
  if (listed.has_error())
    return notes.fail("libibverbs", listed.error().message(), "no device can be opened");
  for (auto const& name : devices) {
    if (auto const& known = listed.value(); std::ranges::find(known, name) != known.end())
      notes.ok(name, "libibverbs has a driver for it");
    else if (auto const file = file_name_of(host, name); file.empty())
      notes.skip(name, "ib_uverbs does not know it");
    else if (host.error_of_opening(std::string{files_folder} + file) == EPERM)
      notes.skip(name, "the kernel refuses its file");
    else
      notes.fail(name, "libibverbs does not list it",
                 "the library of its driver is missing, or is of another rdma-core",
                 "sudo apt install ibverbs-providers  (or rdma-core, libibverbs of other systems)");
  }
}

}  // namespace lend::doctor
