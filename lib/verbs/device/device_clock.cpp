// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading a device's clock, and what its ticks are in time. Any thread.
#include <lend/verbs/device_clock.hpp>

#include <verbs/device/handles.hpp>
#include <verbs/device/verb_error.hpp>

#include <cerrno>
#include <string>

namespace lend {

namespace {

constexpr std::uint64_t nanoseconds_in_a_millisecond = 1'000'000;

/// Of fewer than half of all ticks that there are.
std::uint64_t nanoseconds_of(std::uint64_t ticks, std::uint64_t kilohertz) noexcept {
  // In two parts, since ticks times a million need more than 64 bits. The clock's kHz fit into 32.
  return ticks / kilohertz * nanoseconds_in_a_millisecond +
         ticks % kilohertz * nanoseconds_in_a_millisecond / kilohertz;
}

}  // namespace

Result<DeviceClock> DeviceClock::of(Context const& context) {
  auto const& handle = context.handle_;
  if (!handle->has_timestamps())
    return Error{
        Errc::unsupported,
        context.name() + " has no clock that programs can read; read the host's after poll()"};
  return DeviceClock{handle};
}

Result<DeviceTime> DeviceClock::now() const {
  verbs::Provider const& provider = context_->provider();
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  errno = 0;
  int const result = provider.query_rt_values_ex(context_->raw.get(), &values);
  int const error = verbs::errno_of(result);
  if (result != 0)
    return verbs::verb_error(provider, "ibv_query_rt_values_ex of " + context_->name, error,
                             "This device's clock cannot be read: compare the times of its "
                             "completions with each other.");
  // Drivers put all ticks into the nanoseconds.
  // Source: rdma-core providers/mlx5/verbs.c, mlx5_query_rt_values().
  auto const ticks = static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  return DeviceTime{ticks & context_->timestamp_mask};
}

std::chrono::nanoseconds DeviceClock::elapsed(DeviceTime from, DeviceTime to) const noexcept {
  auto const mask = context_->timestamp_mask;
  auto const forward = (to.ticks - from.ticks) & mask;
  auto const backward = (from.ticks - to.ticks) & mask;
  auto const duration = [&](std::uint64_t ticks) {
    return std::chrono::nanoseconds{
        static_cast<std::int64_t>(nanoseconds_of(ticks, context_->attributes.clock_kilohertz))};
  };
  return forward <= backward ? duration(forward) : -duration(backward);
}

std::uint64_t DeviceClock::kilohertz() const noexcept {
  return context_->attributes.clock_kilohertz;
}

std::uint64_t DeviceClock::mask() const noexcept {
  return context_->timestamp_mask;
}

}  // namespace lend
