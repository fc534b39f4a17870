// SPDX-License-Identifier: MIT OR Apache-2.0
// Which device to use: the one place where it is decided. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/device.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace lend {

/// What to open.
struct DeviceChoice {
  enum class Kind : std::uint8_t { either, hardware, soft };

  Kind kind = Kind::either;
  std::string name{};     ///< empty: any
  std::uint8_t port = 0;  ///< 0: the first active one

  /// The first active hardware port; lend's soft device only where the host has no RDMA device at
  /// all. The environment variable LEND_DEVICE overrides: a device's name, `soft` or `hardware`.
  [[nodiscard]] static DeviceChoice either() { return {}; }
  /// Hardware or an error. Never the soft device, whatever the environment says.
  [[nodiscard]] static DeviceChoice hardware() { return {.kind = Kind::hardware}; }
  [[nodiscard]] static DeviceChoice soft() { return {.kind = Kind::soft}; }
  [[nodiscard]] static DeviceChoice named(std::string name, std::uint8_t port = 0) {
    return {.name = std::move(name), .port = port};
  }
};

/// Hardware devices first, then the soft one.
/// Errors:  system_failed  the kernel's list could not be read.
[[nodiscard]] Result<std::vector<Device>> list_devices();

/// Opens what `choice` says; `kind()` and `name()` of the result say what that was.
///
/// Errors:  not_found    no such device; the message lists those there are. Devices that are there
///          and cannot be used are an error that says why for each: no silent fall-back.
///          denied, exhausted, unsupported  as Device::open().
[[nodiscard]] Result<Context> open_device(DeviceChoice const& choice = DeviceChoice::either());

}  // namespace lend
