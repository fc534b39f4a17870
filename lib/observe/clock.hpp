// SPDX-License-Identifier: MIT OR Apache-2.0
// The clock of observed channels: a counter of the CPU where that is good, else a call. Any thread.
#pragma once

#include <lend/base/export.hpp>

#include <cstdint>
#include <ctime>

namespace lend::observe {

/// Nanoseconds of CLOCK_MONOTONIC_RAW, which nothing slews. Some 40 instructions.
[[nodiscard]] inline std::uint64_t raw_nanoseconds() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

/// Which one this process uses. All threads and processes of a host see the same time.
struct Clock {
  bool is_counter = false;
  double nanoseconds_a_tick = 1;

  /// Measured for 2 ms by the first call.
  ///
  /// The counter is TSC where CPUID says that it is invariant (constant in all P-, C- and T-states)
  /// and the kernel has not found it unstable; on AArch64 the virtual counter, which the
  /// architecture requires to be so.
  /// Source: Intel SDM vol. 3, 18.17.1 "Invariant TSC"; AMD APM vol. 2, 13.2.4; Linux
  /// kernel/time/clocksource.c, available_clocksource_show(): without an unstable one; Arm ARM
  /// DDI 0487, D11.1.
  [[nodiscard]] LEND_EXPORT static Clock const& of_this_process() noexcept;

  [[nodiscard]] std::uint64_t now() const noexcept {
    return is_counter ? counter() : raw_nanoseconds();
  }
  /// Of the time since `then`; 0 where the counters of two processors differ by more than that.
  [[nodiscard]] std::uint64_t nanoseconds_since(std::uint64_t then) const noexcept {
    auto const ticks = static_cast<std::int64_t>(now() - then);
    auto const elapsed = static_cast<std::int64_t>(static_cast<double>(ticks) * nanoseconds_a_tick);
    return static_cast<std::uint64_t>(elapsed > 0 ? elapsed : 0);
  }
  /// Of a clock that is_counter.
  [[nodiscard, gnu::always_inline]] static std::uint64_t counter() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t ticks = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
  }
};

}  // namespace lend::observe
