// SPDX-License-Identifier: MIT OR Apache-2.0
// Chooses and opens a device. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/device.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace lend {

/// Which device to open.
struct DeviceChoice {
  enum class Kind : std::uint8_t { either, card, software_rdma, soft };

  Kind kind = Kind::either;
  std::string name{};     ///< empty: any
  std::uint8_t port = 0;  ///< 0: the first active one

  /// The first active port of a card, else of a SoftRoCE device. The soft device only on a host
  /// without any RDMA device. Never an iWARP device, which handshake(), listen() and connect()
  /// cannot connect. The environment variable LEND_DEVICE overrides it: a device's name, `card`,
  /// `software` or `soft`.
  [[nodiscard]] static DeviceChoice either() { return {}; }
  /// A card or an error; an iWARP card only if there is no other. This and the following choices
  /// ignore the environment.
  [[nodiscard]] static DeviceChoice card() { return {.kind = Kind::card}; }
  /// SoftRoCE, else SoftiWARP, or an error.
  [[nodiscard]] static DeviceChoice software_rdma() { return {.kind = Kind::software_rdma}; }
  [[nodiscard]] static DeviceChoice soft() { return {.kind = Kind::soft}; }
  [[nodiscard]] static DeviceChoice named(std::string name, std::uint8_t port = 0) {
    return {.name = std::move(name), .port = port};
  }
};

/// All devices: cards, software RDMA, the soft device; iWARP devices last among their kind.
/// Errors:  system_failed  the kernel's list could not be read.
[[nodiscard]] LEND_EXPORT Result<std::vector<Device>> list_devices();

/// Opens the device that `choice` names; `kind()` and `name()` of the result say which it is.
///
/// Errors:  not_found    no such device; the message lists those that exist. If RDMA devices exist
///                       but none is usable, it says why for each; there is no fall-back.
///          unsupported  the default choice, and all RDMA devices are iWARP; the message says how
///                       to choose one.
///          denied, exhausted, unsupported, system_failed  as Device::open().
[[nodiscard]] LEND_EXPORT Result<Context> open_device(
    DeviceChoice const& choice = DeviceChoice::either());

}  // namespace lend
