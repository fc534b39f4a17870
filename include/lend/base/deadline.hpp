// SPDX-License-Identifier: MIT OR Apache-2.0
// How long a call may wait. A plain value; any thread.
#pragma once

#include <chrono>

namespace lend {

/// A point in time after which a wait gives up, or none.
///
/// Every call that waits takes one as `within(2s)` or `until(time_point)`.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// A wait that only its event ends.
  static constexpr Deadline never() noexcept { return Deadline{Clock::time_point::max()}; }

  constexpr explicit Deadline(Clock::time_point at) noexcept : at_{at} {}

  [[nodiscard]] constexpr bool is_never() const noexcept { return at_ == Clock::time_point::max(); }
  [[nodiscard]] bool has_passed() const noexcept { return !is_never() && Clock::now() >= at_; }
  [[nodiscard]] constexpr Clock::time_point at() const noexcept { return at_; }

  /// Time left; zero once passed, the largest duration for never().
  [[nodiscard]] Clock::duration left() const noexcept {
    if (is_never()) return Clock::duration::max();
    auto const now = Clock::now();
    return now >= at_ ? Clock::duration::zero() : at_ - now;
  }

  /// The earlier of two deadlines.
  [[nodiscard]] friend constexpr Deadline sooner(Deadline a, Deadline b) noexcept {
    return a.at_ <= b.at_ ? a : b;
  }

 private:
  Clock::time_point at_;
};

/// `duration` from now; one too long for the clock means never, a negative one means now.
template <class Rep, class Period>
[[nodiscard]] Deadline within(std::chrono::duration<Rep, Period> duration) noexcept {
  using Seconds = std::chrono::duration<double>;  // holds any duration, unlike the clock's ticks
  auto const now = Deadline::Clock::now();
  if (duration <= duration.zero()) return Deadline{now};
  if (!(Seconds{duration} < Seconds{Deadline::Clock::time_point::max() - now}))
    return Deadline::never();
  return Deadline{now + std::chrono::ceil<Deadline::Clock::duration>(duration)};
}

/// The given moment.
[[nodiscard]] constexpr Deadline until(Deadline::Clock::time_point at) noexcept {
  return Deadline{at};
}

}  // namespace lend
