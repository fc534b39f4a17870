// SPDX-License-Identifier: MIT OR Apache-2.0
// Listing and opening devices. Any thread.
#include <base/printable.hpp>
#include <base/standard_reserved.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/device.hpp>
#include <verbs/device/device_list.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/port.hpp>
#include <verbs/device/rdma_core_library.hpp>
#include <verbs/device/verb_error.hpp>

#include <endian.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

namespace lend {

std::string verbs::libibverbs_obstacle() {
  return &lend_loads_rdma_core != nullptr ? libibverbs().obstacle() : std::string{};
}

using verbs::DeviceList;

namespace {

/// Source: Linux Documentation/ABI/testing/sysfs-bus-pci, numa_node: -1 where it is not known.
std::optional<std::uint32_t> numa_node_of(ibv_device const& device) {
  if (device.ibdev_path[0] == '\0') return std::nullopt;
  base::StandardReserved const reserved;
  std::ifstream file{std::string{device.ibdev_path} + "/device/numa_node"};
  int node = -1;
  if (!(file >> node) || node < 0) return std::nullopt;
  return static_cast<std::uint32_t>(node);
}

/// A device of the kernel that cannot be reached is an error, lest another stand in for it.
Result<void> check_library() {
  auto const obstacle = verbs::libibverbs_obstacle();
  base::StandardReserved const reserved;
  std::error_code none;
  std::filesystem::directory_iterator const first{"/sys/class/infiniband", none};
  if (obstacle.empty() || first == std::filesystem::directory_iterator{}) return success();
  return Error{Errc::unsupported,
               "the kernel has an RDMA device, " + first->path().filename().string() +
                   ", and libibverbs cannot be loaded: " + base::shown(obstacle, 200) +
                   ". Install it with the library of the device's driver (Debian: libibverbs1, "
                   "ibverbs-providers), or choose the soft device by LEND_DEVICE=soft or "
                   "DeviceChoice::soft()"};
}

DeviceAttributes attributes_of(ibv_context const& context, ibv_device_attr const& device) {
  return {.guid = {be64toh(device.node_guid)},
          .system_image_guid = {be64toh(device.sys_image_guid)},
          .firmware{device.fw_ver, ::strnlen(device.fw_ver, sizeof device.fw_ver)},
          .vendor_id = device.vendor_id,
          .vendor_part_id = device.vendor_part_id,
          .hardware_version = device.hw_ver,
          .port_count = device.phys_port_cnt,
          .completion_vectors = static_cast<std::uint32_t>(std::max(context.num_comp_vectors, 0)),
          .atomics = static_cast<AtomicReach>(device.atomic_cap),
          .is_iwarp = context.device->transport_type == IBV_TRANSPORT_IWARP,
          .numa_node = numa_node_of(*context.device)};
}

}  // namespace

std::string_view name_of(DeviceKind kind) noexcept {
  switch (kind) {
    case DeviceKind::card: return "card";
    case DeviceKind::soft: return "soft";
    case DeviceKind::software_rdma: return "software RDMA";
  }
  return "unknown";
}

std::string_view name_of(PortState state) noexcept {
  switch (state) {
    case PortState::nop: return "NOP";
    case PortState::down: return "DOWN";
    case PortState::init: return "INIT";
    case PortState::armed: return "ARMED";
    case PortState::active: return "ACTIVE";
    case PortState::deferred: return "ACTIVE_DEFER";
  }
  return "unknown";
}

std::string_view name_of(LinkLayer layer) noexcept {
  switch (layer) {
    case LinkLayer::unspecified: return "unspecified";
    case LinkLayer::infiniband: return "InfiniBand";
    case LinkLayer::ethernet: return "Ethernet";
  }
  return "unknown";
}

std::string_view name_of(PhysicalState state) noexcept {
  switch (state) {
    case PhysicalState::unknown: break;
    case PhysicalState::sleep: return "sleep";
    case PhysicalState::polling: return "polling";
    case PhysicalState::disabled: return "disabled";
    case PhysicalState::training: return "training";
    case PhysicalState::link_up: return "link up";
    case PhysicalState::error_recovery: return "error recovery";
    case PhysicalState::test: return "test";
  }
  return "unknown";
}

std::string_view name_of(AtomicReach reach) noexcept {
  switch (reach) {
    case AtomicReach::none: return "none";
    case AtomicReach::device: return "device";
    case AtomicReach::global: return "global";
  }
  return "unknown";
}

std::string text_of(Guid guid) {
  char text[20];
  auto const part = [&](int shift) { return static_cast<unsigned>(guid.value >> shift & 0xffff); };
  std::snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", part(48), part(32), part(16), part(0));
  return text;
}

Result<std::vector<Device>> DeviceList::of(verbs::Provider const& provider) {
  int count = 0;
  errno = 0;
  base::StandardReserved const reserved;
  ibv_device** const raw = provider.get_device_list(&count);
  int const error = errno;
  if (raw == nullptr) {
    // ENOSYS: no RDMA in this kernel, or no libibverbs. Source: ibv_get_device_list(3).
    if (error == ENOSYS) {
      LEND_TRYV(check_library());
      return std::vector<Device>{};
    }
    return verbs::verb_error(provider, std::string{"ibv_get_device_list of "} + provider.name,
                             error);
  }
  auto const list = std::make_shared<DeviceList const>(provider, raw);
  auto const kind = provider.is_soft ? DeviceKind::soft : DeviceKind::card;
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    if (!provider.is_soft && raw[i]->dev_path == verbs::soft_device_mark) continue;
    devices.push_back(Device{raw[i]->name, kind, list, static_cast<std::size_t>(i)});
  }
  return devices;
}

DeviceKind verbs::kind_of_vendor(std::uint32_t vendor) noexcept {
  constexpr std::uint32_t soft_roce = 0xff'ffff;
  constexpr std::uint32_t soft_iwarp = 0x62'6d74;
  constexpr std::uint32_t none = 0;  // SoftRoCE before Linux 5.10
  bool const is_software = vendor == soft_roce || vendor == soft_iwarp || vendor == none;
  return is_software ? DeviceKind::software_rdma : DeviceKind::card;
}

void DeviceList::identify(Device& device) {
  verbs::Provider const& provider = *device.list_->provider;
  if (provider.is_soft) return;
  base::StandardReserved const reserved;
  verbs::ContextHandle::Raw const raw{provider,
                                      provider.open_device(device.list_->devices[device.index_])};
  ibv_device_attr attributes{};
  if (raw && provider.query_device(raw.get(), &attributes) == 0)
    device.kind_ = verbs::kind_of_vendor(attributes.vendor_id);
}

bool DeviceList::is_iwarp(Device const& device) noexcept {
  return device.list_->devices[device.index_]->transport_type == IBV_TRANSPORT_IWARP;
}

Guid Device::guid() const noexcept {
  return {be64toh(list_->provider->get_device_guid(list_->devices[index_]))};
}

std::optional<std::uint32_t> Device::kernel_index() const noexcept {
  int const index = list_->provider->get_device_index(list_->devices[index_]);
  if (index < 0) return std::nullopt;
  return static_cast<std::uint32_t>(index);
}

Result<Context> Device::open(std::uint8_t port) const {
  verbs::Provider const& provider = *list_->provider;
  if (int const error = verbs::notice_forks(); error != 0)
    return Error::from_errno("pthread_atfork", error);
  errno = 0;
  base::StandardReserved const reserved;
  verbs::ContextHandle::Raw raw{provider, provider.open_device(list_->devices[index_])};
  int error = errno;
  if (!raw)
    return verbs::verb_error(
        provider, "ibv_open_device of " + name_, error,
        "The device file /dev/infiniband/uverbs* must be readable and writable, and "
        "descriptors left (`ulimit -n`).");

  ibv_device_attr attributes{};
  int const result = provider.query_device(raw.get(), &attributes);
  error = verbs::errno_of(result);
  if (result != 0) return verbs::verb_error(provider, "ibv_query_device of " + name_, error);
  LEND_TRY(chosen, verbs::choose_port(provider, raw.get(), name_, port, attributes.phys_port_cnt));

  auto const kind =
      provider.is_soft ? DeviceKind::soft : verbs::kind_of_vendor(attributes.vendor_id);
  auto handle = std::make_shared<verbs::ContextHandle>(std::move(raw), name_, kind);
  handle->port = chosen;
  handle->attributes = attributes_of(*handle->raw.get(), attributes);
  handle->limits = {.queue_pairs_max = attributes.max_qp,
                    .completion_queues_max = attributes.max_cq,
                    .protection_domains_max = attributes.max_pd,
                    .regions_max = attributes.max_mr,
                    .work_requests_max = attributes.max_qp_wr,
                    .elements_max = attributes.max_sge,
                    .completions_max = attributes.max_cqe,
                    .receive_queues_max = attributes.max_srq,
                    .shared_receives_max = attributes.max_srq_wr,
                    .region_bytes_max = attributes.max_mr_size,
                    .shared_receive_elements_max = attributes.max_srq_sge,
                    .read_elements_max = attributes.max_sge_rd,
                    .reads_in_flight_max = attributes.max_qp_init_rd_atom,
                    .reads_served_max = attributes.max_qp_rd_atom,
                    .address_handles_max = attributes.max_ah,
                    .memory_windows_max = attributes.max_mw,
                    .multicast_groups_max = attributes.max_mcast_grp,
                    .partition_keys_max = attributes.max_pkeys};
  handle->has_windows = (attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
  handle->has_peer_loans = handle->has_windows && kind != DeviceKind::software_rdma;
  handle->has_atomics = attributes.atomic_cap != IBV_ATOMIC_NONE;
  // A device that does not answer has neither. Source: ibv_query_device_ex(3), odp_caps.
  ibv_device_attr_ex more{};
  if (provider.query_device_ex(handle->raw.get(), &more) == 0) {
    handle->has_paging_on_demand = (more.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
    handle->timestamp_mask = more.completion_timestamp_mask;
    handle->attributes.clock_kilohertz = more.hca_core_clock;
  }
  return Context{std::move(handle)};
}

}  // namespace lend
