// SPDX-License-Identifier: MIT OR Apache-2.0
// The composition root: the only file that knows both providers. Any thread.
#include <lend/open_device.hpp>
#include <soft/provider.hpp>
#include <verbs/device_list.hpp>
#include <verbs/provider.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace lend {

namespace {

/// A choice, and for messages where it came from.
struct Wanted {
  DeviceChoice choice;
  std::string source{};
};

/// Applies LEND_DEVICE, which only a choice that leaves everything open gives way to.
Wanted wanted_of(DeviceChoice const& choice) {
  if (choice.kind != DeviceChoice::Kind::either || !choice.name.empty()) return {choice};
  char const* const variable = std::getenv("LEND_DEVICE");
  if (variable == nullptr || *variable == '\0') return {choice};
  Wanted wanted{choice, std::string{" (from LEND_DEVICE="} + variable + ")"};
  std::string_view const value{variable};
  if (value == "soft")
    wanted.choice.kind = DeviceChoice::Kind::soft;
  else if (value == "hardware")
    wanted.choice.kind = DeviceChoice::Kind::hardware;
  else
    wanted.choice.name = value;
  return wanted;
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

Error no_such_device(Wanted const& wanted) {
  std::string text = wanted.choice.name.empty() ? "no RDMA hardware on this host"
                                                : "no device named " + wanted.choice.name;
  text += wanted.source;
  auto const all = list_devices();
  text += "; there is: " + (all.has_value() ? names_of(all.value()) : all.error().message());
  return Error{Errc::not_found, std::move(text)};
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

}  // namespace

Result<std::vector<Device>> list_devices() {
  LEND_TRY(devices, devices_of(rdma_core_provider()));
  LEND_TRY(soft_devices, devices_of(soft::provider()));
  devices.insert(devices.end(), soft_devices.begin(), soft_devices.end());
  return std::move(devices);
}

Result<Context> open_device(DeviceChoice const& choice) {
  using Kind = DeviceChoice::Kind;
  Wanted const wanted = wanted_of(choice);
  std::vector<Device> devices;
  if (wanted.choice.kind != Kind::soft) {
    LEND_TRY(hardware, devices_of(rdma_core_provider()));
    devices = std::move(hardware);
  }
  // Of itself the soft device only stands in where there is no hardware at all.
  bool const soft_too =
      wanted.choice.kind == Kind::soft ||
      (wanted.choice.kind == Kind::either && (devices.empty() || !wanted.choice.name.empty()));
  if (soft_too) {
    LEND_TRY(soft_devices, devices_of(soft::provider()));
    devices.insert(devices.end(), soft_devices.begin(), soft_devices.end());
  }
  if (!wanted.choice.name.empty())
    std::erase_if(devices,
                  [&](Device const& device) { return device.name() != wanted.choice.name; });
  if (devices.empty()) return no_such_device(wanted);
  return open_first(devices, wanted);
}

}  // namespace lend
