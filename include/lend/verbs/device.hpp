// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices, their ports and limits. Values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lend {

class Context;
namespace verbs {
struct DeviceList;
}

/// What is behind a device. A card and software RDMA can connect to each other; the soft device
/// connects to soft devices only.
/// Source: by ibv_query_device(3), vendor_id; Linux drivers/infiniband/sw/rxe/rxe_param.h
/// (RXE_VENDOR_ID; 0 before Linux 5.10) and sw/siw/siw.h (SIW_VENDOR_ID).
enum class DeviceKind : std::uint8_t {
  card = 0,           ///< a network card
  soft = 1,           ///< lend's own, in shared memory on this host
  software_rdma = 2,  ///< the kernel on an ordinary network interface: SoftRoCE, SoftiWARP
};

enum class LinkLayer : std::uint8_t { unspecified = 0, infiniband = 1, ethernet = 2 };

/// Source: ibv_query_port(3), enum ibv_port_state.
enum class PortState : std::uint8_t {
  nop = 0,
  down = 1,
  init = 2,
  armed = 3,
  active = 4,
  deferred = 5
};

/// What the link of a port is doing. Source: Linux include/rdma/ib_verbs.h, enum
/// ib_port_phys_state.
enum class PhysicalState : std::uint8_t {
  unknown = 0,
  sleep = 1,
  polling = 2,  ///< looking for the other end of the cable
  disabled = 3,
  training = 4,
  link_up = 5,
  error_recovery = 6,
  test = 7,
};

/// One port: of Context::port() as it was when the device was opened, of query_port() as it is now.
/// Source: ibv_query_port(3).
struct PortInfo {
  std::uint8_t number = 1;  ///< counted from 1
  PortState state{};
  LinkLayer link_layer{};
  PhysicalState physical_state{};
  std::uint16_t lid = 0;                 ///< 0 on Ethernet
  std::uint16_t subnet_manager_lid = 0;  ///< 0 on Ethernet
  std::uint8_t lid_mask_bits = 0;        ///< low bits of `lid` that select a path to this port
  std::uint32_t active_mtu_bytes = 0;    ///< of a packet's payload; 0: none that verbs define
  std::uint32_t mtu_bytes_max = 0;
  std::uint32_t message_bytes_max = 0;
  std::int32_t gid_count = 0;
  std::uint16_t partition_key_count = 0;
  std::uint8_t lanes = 0;           ///< 0: a width that verbs do not define
  std::uint32_t lane_megabits = 0;  ///< per second; 0: a speed that verbs do not define
  bool needs_global_route = false;  ///< an InfiniBand subnet in which LIDs are not sufficient

  /// Per second, of all lanes; 0 if it is unknown.
  [[nodiscard]] std::uint32_t megabits() const noexcept { return lanes * lane_megabits; }
};

/// How far atomic operations of the device are atomic.
/// Source: ibv_query_device(3), enum ibv_atomic_cap.
enum class AtomicReach : std::uint8_t {
  none = 0,    ///< it has none
  device = 1,  ///< among those of this device
  global = 2,  ///< also with the CPU's and with other devices'
};

/// A number that a device has for good, written as in `ibv_devinfo`.
struct Guid {
  std::uint64_t value = 0;  ///< 0: unknown

  /// Who made the device: the first 24 bits. Source: IEEE 802, organizationally unique identifier.
  [[nodiscard]] std::uint32_t maker() const noexcept {
    return static_cast<std::uint32_t>(value >> 40);
  }
  friend bool operator==(Guid const&, Guid const&) = default;
};

/// What a device is. Source: ibv_query_device(3).
struct DeviceAttributes {
  Guid guid{};
  Guid system_image_guid{};  ///< the same for all devices of one card
  std::string firmware{};
  std::uint32_t vendor_id = 0;
  std::uint32_t vendor_part_id = 0;
  std::uint32_t hardware_version = 0;
  std::uint8_t port_count = 0;
  std::uint32_t completion_vectors = 0;  ///< interrupts among which completion queues may choose
  AtomicReach atomics{};
  bool is_iwarp = false;
  std::uint64_t clock_kilohertz = 0;         ///< of DeviceClock; 0: it has none, or does not say
  std::optional<std::uint32_t> numa_node{};  ///< where the card is; nothing if Linux does not say
};

/// Limits of a device, as it reports them.
struct DeviceLimits {
  std::int32_t queue_pairs_max = 0;  ///< of all processes together, like the next three
  std::int32_t completion_queues_max = 0;
  std::int32_t protection_domains_max = 0;
  std::int32_t regions_max = 0;
  std::int32_t work_requests_max = 0;    ///< outstanding in one direction of a queue pair
  std::int32_t elements_max = 0;         ///< gather or scatter elements of one work request
  std::int32_t completions_max = 0;      ///< in one completion queue
  std::int32_t receive_queues_max = 0;   ///< shared ones, of all processes; 0: it has none
  std::int32_t shared_receives_max = 0;  ///< outstanding in one of them
  std::uint64_t region_bytes_max = 0;
  std::int32_t shared_receive_elements_max = 0;  ///< scatter elements of one shared receive
  std::int32_t read_elements_max = 0;            ///< scatter elements of one read
  std::int32_t reads_in_flight_max = 0;  ///< reads and atomic operations out of one queue pair
  std::int32_t reads_served_max = 0;     ///< the same, into one queue pair
  std::int32_t address_handles_max = 0;  ///< Destinations, of all processes
  std::int32_t memory_windows_max = 0;
  std::int32_t multicast_groups_max = 0;
  std::uint16_t partition_keys_max = 0;  ///< of one port
};

[[nodiscard]] LEND_EXPORT std::string_view name_of(DeviceKind) noexcept;
[[nodiscard]] LEND_EXPORT std::string_view name_of(PortState) noexcept;
[[nodiscard]] LEND_EXPORT std::string_view name_of(LinkLayer) noexcept;
[[nodiscard]] LEND_EXPORT std::string_view name_of(PhysicalState) noexcept;
[[nodiscard]] LEND_EXPORT std::string_view name_of(AtomicReach) noexcept;
/// "0002:c903:0012:3456".
[[nodiscard]] LEND_EXPORT std::string text_of(Guid guid);

/// A device that could be opened. Cheap to copy. From list_devices(), which opens each for a moment
/// to see its kind(); a device that cannot be opened counts as a card.
class LEND_EXPORT Device {
 public:
  // A move copies: the moved-from object remains usable.
  Device(Device const&) = default;
  Device& operator=(Device const&) = default;

  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] DeviceKind kind() const noexcept { return kind_; }
  /// Without opening it. 0 if it has none, or if it is not to be had.
  /// Source:  ibv_get_device_guid(3).
  [[nodiscard]] Guid guid() const noexcept;
  /// The kernel's number of the device, which no other has until the next boot. Nothing if the
  /// kernel gave it none, as of the soft device.
  /// Source:  ibv_get_device_index(3).
  [[nodiscard]] std::optional<std::uint32_t> kernel_index() const noexcept;

  /// Opens the device on `port`, or with 0 on its first port in state ACTIVE.
  ///
  /// Errors:  not_found      no such port, or no active one; the message has the states.
  ///          denied         no permission for the device file.
  ///          exhausted      out of descriptors or memory.
  ///          unsupported    the port reports an MTU that verbs do not define.
  ///          system_failed  a call, named in the message, failed otherwise; its errno may give a
  ///                         more specific code.
  /// Source:  ibv_open_device(3), ibv_query_device(3), ibv_query_port(3).
  [[nodiscard]] Result<Context> open(std::uint8_t port = 0) const;

 private:
  friend struct verbs::DeviceList;
  Device(std::string name, DeviceKind kind, std::shared_ptr<verbs::DeviceList const> list,
         std::size_t index)
      : name_{std::move(name)}, kind_{kind}, list_{std::move(list)}, index_{index} {}

  std::string name_;
  DeviceKind kind_;
  std::shared_ptr<verbs::DeviceList const> list_;
  std::size_t index_;
};

}  // namespace lend
