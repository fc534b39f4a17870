// SPDX-License-Identifier: MIT OR Apache-2.0
// The decision which device to use, apart from where devices come from. Any thread.
#pragma once

#include <lend/open_device.hpp>

#include <vector>

namespace lend {

/// The devices of both providers.
struct HostDevices {
  std::vector<Device> rdma_core;  ///< their kinds are not known yet
  std::vector<Device> soft;
};

/// list_devices() of these.
[[nodiscard]] std::vector<Device> list_devices(HostDevices devices);

/// open_device() among these.
[[nodiscard]] Result<Context> open_device(HostDevices devices, DeviceChoice const& choice);

}  // namespace lend
