// SPDX-License-Identifier: MIT OR Apache-2.0
// The composition root: the only file that knows both providers. Any thread.
#include <base/environment.hpp>
#include <base/printable.hpp>
#include <open_device.hpp>
#include <soft/device/provider.hpp>
#include <verbs/device/device_list.hpp>
#include <verbs/device/provider.hpp>
#include <verbs/device/rdma_core_library.hpp>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace lend {

namespace {

using Kind = DeviceChoice::Kind;

/// A choice, and for messages where it came from.
struct Wanted {
  DeviceChoice choice;
  std::string source{};
};

/// Applies LEND_DEVICE, which only a choice that leaves everything open gives way to.
/// Errors:  denied  that is refused.
Result<Wanted> wanted_of(DeviceChoice const& choice) {
  if (choice.kind != Kind::either || !choice.name.empty()) return Wanted{choice};
  LEND_TRY(value, base::text_of_variable("LEND_DEVICE"));
  if (value.empty()) return Wanted{choice};
  Wanted wanted{choice, " (from LEND_DEVICE=" + base::shown(value) + ")"};
  if (value == "card")
    wanted.choice.kind = Kind::card;
  else if (value == "software")
    wanted.choice.kind = Kind::software_rdma;
  else if (value == "soft")
    wanted.choice.kind = Kind::soft;
  else
    wanted.choice.name = value;
  return wanted;
}

bool is_of(Kind kind, Device const& device) noexcept {
  switch (kind) {
    case Kind::either: return true;
    case Kind::card: return device.kind() == DeviceKind::card;
    case Kind::software_rdma: return device.kind() == DeviceKind::software_rdma;
    case Kind::soft: return device.kind() == DeviceKind::soft;
  }
  return false;
}

/// Asks the devices of rdma-core for their kinds, and brings them into the order of preference.
void identify(std::vector<Device>& devices) {
  for (auto& device : devices) verbs::DeviceList::identify(device);
  auto const rank = [](Device const& device) {
    return std::tuple{device.kind() != DeviceKind::card, verbs::DeviceList::is_iwarp(device)};
  };
  std::ranges::stable_sort(devices, {}, rank);
}

void append(std::vector<Device>& devices, std::vector<Device> const& more) {
  devices.insert(devices.end(), more.begin(), more.end());
}

std::string names_of(std::vector<Device> const& devices) {
  std::string names;
  for (auto const& device : devices) {
    if (!names.empty()) names += ", ";
    ((names += device.name()) += " (") += name_of(device.kind());
    names += ')';
  }
  return names.empty() ? "none" : names;
}

Error no_such_device(Wanted const& wanted, std::vector<Device> const& all) {
  std::string text = "no device named " + base::shown(wanted.choice.name);
  if (wanted.choice.name.empty())
    text = wanted.choice.kind == Kind::software_rdma ? "no software RDMA device on this host"
                                                     : "no RDMA card on this host";
  text += wanted.source + "; there is: " + names_of(all);
  if (auto const obstacle = verbs::libibverbs_obstacle(); !obstacle.empty())
    text += "; devices of the kernel need libibverbs: " + base::shown(obstacle, 200);
  return Error{Errc::not_found, std::move(text)};
}

Error only_iwarp(std::vector<Device> const& devices) {
  return Error{
      Errc::unsupported,
      "all RDMA devices of this host are iWARP, which rdma_cm connects, but not "
      "handshake(), listen() and connect(): " +
          names_of(devices) +
          "; choose one by its name (LEND_DEVICE or DeviceChoice::named()) for cm_connect() "
          "and CmListener, or LEND_DEVICE=soft for the soft device"};
}

/// The first that opens; else why each did not.
Result<Context> open_first(std::vector<Device> const& devices, Wanted const& wanted) {
  std::vector<Error> errors;
  for (auto const& device : devices) {
    auto opened = device.open(wanted.choice.port);
    if (opened.has_value()) return opened;
    errors.push_back(std::move(opened).assume_error());
  }
  if (errors.size() == 1 && wanted.source.empty()) return errors.front();
  bool const alike = std::all_of(errors.begin(), errors.end(), [&](Error const& error) {
    return error.code() == errors.front().code();
  });
  std::string text = "no device can be used" + wanted.source + ':';
  for (std::size_t i = 0; i < errors.size(); ++i)
    text += (i == 0 ? " " : "; ") + devices[i].name() + ": " + errors[i].message();
  return Error{alike ? errors.front().code() : Errc::not_found, std::move(text)};
}

/// Those of rdma-core only where the soft device does not do.
Result<HostDevices> devices_of_host(Kind wanted) {
  HostDevices devices;
  if (wanted != Kind::soft) {
    LEND_TRY(rdma_core, verbs::devices_of(verbs::rdma_core_provider()));
    devices.rdma_core = std::move(rdma_core);
  }
  LEND_TRY(soft, verbs::devices_of(soft::provider()));
  devices.soft = std::move(soft);
  return devices;
}

}  // namespace

std::vector<Device> list_devices(HostDevices devices) {
  identify(devices.rdma_core);
  append(devices.rdma_core, devices.soft);
  return std::move(devices.rdma_core);
}

Result<Context> open_device(HostDevices devices, DeviceChoice const& choice) {
  LEND_TRY(wanted, wanted_of(choice));
  // No structured binding: clang 14 lets no lambda use one.
  auto const& kind = wanted.choice.kind;
  auto const& name = wanted.choice.name;
  bool const is_default = kind == Kind::either && name.empty();
  // By default the soft device only stands in where there is no RDMA device at all.
  if (is_default && !devices.rdma_core.empty()) devices.soft.clear();

  auto named = devices;
  auto const has_other_name = [&](Device const& device) {
    return !name.empty() && device.name() != name;
  };
  std::erase_if(named.rdma_core, has_other_name);
  std::erase_if(named.soft, has_other_name);
  auto candidates = list_devices(std::move(named));
  std::erase_if(candidates, [&](Device const& device) {
    return !is_of(kind, device) || (is_default && verbs::DeviceList::is_iwarp(device));
  });
  if (!candidates.empty()) return open_first(candidates, wanted);
  auto const all = list_devices(std::move(devices));
  return is_default && !all.empty() ? only_iwarp(all) : no_such_device(wanted, all);
}

Result<std::vector<Device>> list_devices() {
  LEND_TRY(devices, devices_of_host(Kind::either));
  return list_devices(std::move(devices));
}

Result<Context> open_device(DeviceChoice const& choice) {
  LEND_TRY(wanted, wanted_of(choice));
  LEND_TRY(devices, devices_of_host(wanted.choice.kind));
  return open_device(std::move(devices), choice);
}

}  // namespace lend
