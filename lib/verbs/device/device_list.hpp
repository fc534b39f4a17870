// SPDX-License-Identifier: MIT OR Apache-2.0
// The devices of one provider. Immutable; any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/device.hpp>
#include <verbs/device/provider.hpp>

#include <cstdint>
#include <vector>

namespace lend::verbs {

/// A provider's list, alive while a Device of it is: the verbs want a device opened before its list
/// is freed. Source: ibv_get_device_list(3).
struct DeviceList {
  Provider const* provider;
  ibv_device** devices;  // ends with null

  DeviceList(Provider const& table, ibv_device** list) noexcept : provider{&table}, devices{list} {}
  DeviceList(DeviceList const&) = delete;
  DeviceList& operator=(DeviceList const&) = delete;
  ~DeviceList() { provider->free_device_list(devices); }

  /// Empty where the kernel knows no RDMA.
  [[nodiscard]] static Result<std::vector<Device>> of(Provider const& provider);

  /// Asks a device of rdma-core for its kind; until then it is a card. Opens it for a moment.
  static void identify(Device& device);
  /// Whether only rdma_cm can connect its queue pairs. Source: ibv_get_device_list(3).
  [[nodiscard]] static bool is_iwarp(Device const& device) noexcept;
};

/// Source: as DeviceKind.
[[nodiscard]] DeviceKind kind_of_vendor(std::uint32_t vendor) noexcept;

[[nodiscard]] inline Result<std::vector<Device>> devices_of(Provider const& provider) {
  return DeviceList::of(provider);
}

}  // namespace lend::verbs
