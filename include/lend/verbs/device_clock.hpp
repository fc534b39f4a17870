// SPDX-License-Identifier: MIT OR Apache-2.0
// The clock of a device, by which it stamps completions.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/datagram.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace lend {

/// A moment, in ticks of the device's clock. It means nothing to another device.
struct DeviceTime {
  std::uint64_t ticks = 0;
};

/// A completion of a queue with timestamps: CompletionQueueOptions::timestamps.
struct TimedCompletion : DatagramCompletion {
  /// When the device completed the work; of work that succeeded. A queue hands completions out in
  /// the order of their queue pair's sends, and of its receives; the two may be out of order.
  DeviceTime at{};
};

/// Reads the clock of a device, and knows how long a tick is.
///
/// Use it to tell how long ago a completion came to be, or how long a device took between two,
/// without what the program took to poll them.
///
///     LEND_TRY(clock, DeviceClock::of(context));
///     LEND_TRY(queue, CompletionQueue::create(context, {.timestamps = true}));
///     …
///     LEND_TRY(now, clock.now());
///     auto const age = clock.elapsed(completion.at, now);
///
/// Cheap to copy; any thread. It keeps its Context open.
class LEND_EXPORT DeviceClock {
 public:
  /// Errors:  unsupported  the device has no clock that programs can read:
  ///                       DeviceCapabilities::timestamps. SoftRoCE and SoftiWARP have none.
  /// Source:  ibv_query_device_ex(3), hca_core_clock, completion_timestamp_mask.
  [[nodiscard]] static Result<DeviceClock> of(Context const& context);
  // A move copies: the moved-from object remains usable.
  DeviceClock(DeviceClock const&) = default;
  DeviceClock& operator=(DeviceClock const&) = default;

  /// Errors:  unsupported    the driver does not let this process read the clock.
  ///          system_failed  the device failed, or was opened before a fork.
  /// Source:  ibv_query_rt_values_ex(3).
  [[nodiscard]] Result<DeviceTime> now() const;

  /// Negative if `to` is before `from`. Right as long as less than half the clock's range lies
  /// between them: a clock of 48 bits and 1 GHz goes round in three days.
  [[nodiscard]] std::chrono::nanoseconds elapsed(DeviceTime from, DeviceTime to) const noexcept;

  /// Ticks in a millisecond.
  [[nodiscard]] std::uint64_t kilohertz() const noexcept;
  /// The bits of a time that count.
  [[nodiscard]] std::uint64_t mask() const noexcept;

 private:
  explicit DeviceClock(std::shared_ptr<verbs::ContextHandle> context) noexcept
      : context_{std::move(context)} {}
  std::shared_ptr<verbs::ContextHandle> context_;
};

}  // namespace lend
