// SPDX-License-Identifier: MIT OR Apache-2.0
// The two clocks of the soft device. Any thread.
#pragma once

#include <cstdint>
#include <ctime>

namespace lend::soft {

/// Nanoseconds, for deadlines.
[[nodiscard]] inline std::uint64_t now() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

/// A number that changes every one to four milliseconds (the kernel's tick) and costs a few
/// nanoseconds to read, for periodic work.
[[nodiscard]] inline std::uint64_t tick() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace lend::soft
