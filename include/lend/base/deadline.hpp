// SPDX-License-Identifier: MIT OR Apache-2.0
// How long a call may wait, and how another thread ends the wait early. Values; any thread.
#pragma once

#include <lend/base/lifetime.hpp>

#include <atomic>
#include <chrono>

namespace lend {

/// Ends waits early, from any thread: all waits whose deadline names it by `unless()`. It stays
/// cancelled. It must outlive every call and every scope's drain_until() that it is passed to.
///
///     Cancellation stopping;  // another thread: stopping.cancel()
///     channel.receive(memory.scatter(), within(5s).unless(stopping));  // Errc::cancelled
class Cancellation {
 public:
  /// A polling wait notices at once, a sleeping one within Deadline::look_interval.
  void cancel() noexcept {
    // Release: pairs with the acquire in is_cancelled(), so that the woken thread sees why.
    cancelled_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool is_cancelled() const noexcept {
    return cancelled_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<bool> cancelled_{false};
};

/// A point in time after which a wait gives up, or none.
///
/// Every call that waits takes one: `within(2s)` or `until(time_point)`, with
/// `.unless(cancellation)` if another thread may end the wait. The call then returns
/// Errc::timed_out or Errc::cancelled; both leave the same state, which each call documents.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// How often a sleeping wait checks whether it was cancelled.
  static constexpr std::chrono::milliseconds look_interval{20};

  /// No limit.
  static constexpr Deadline never() noexcept { return Deadline{(Clock::time_point::max)()}; }

  constexpr explicit Deadline(Clock::time_point at) noexcept : at_{at} {}

  /// The same moment, or as soon as `cancellation` is cancelled. A deadline has at most one.
  [[nodiscard]] constexpr Deadline unless(
      Cancellation const& cancellation LEND_LIFETIMEBOUND) const noexcept {
    Deadline both{at_};
    both.cancellation_ = &cancellation;
    return both;
  }
  Deadline unless(Cancellation const&&) const = delete;  // it would dangle

  /// Neither time nor a cancellation ends it.
  [[nodiscard]] constexpr bool is_never() const noexcept {
    return at_ == (Clock::time_point::max)() && cancellation_ == nullptr;
  }
  [[nodiscard]] bool is_cancelled() const noexcept {
    return cancellation_ != nullptr && cancellation_->is_cancelled();
  }
  /// Whether its time is over or it was cancelled.
  [[nodiscard]] bool has_passed() const noexcept {
    return is_cancelled() || (at_ != (Clock::time_point::max)() && Clock::now() >= at_);
  }
  [[nodiscard]] constexpr Clock::time_point at() const noexcept { return at_; }

  /// Time left; zero once passed or cancelled, the largest duration if there is no limit.
  [[nodiscard]] Clock::duration left() const noexcept {
    if (is_cancelled()) return Clock::duration::zero();
    if (at_ == (Clock::time_point::max)()) return (Clock::duration::max)();
    auto const now = Clock::now();
    return now >= at_ ? Clock::duration::zero() : at_ - now;
  }
  /// How long a wait may sleep before it checks again: left(), or less if it can be cancelled.
  [[nodiscard]] Clock::duration until_next_look() const noexcept {
    auto const time = left();
    return cancellation_ != nullptr && time > look_interval ? look_interval : time;
  }

  /// The earlier of two deadlines, with the cancellation of the first that has one.
  [[nodiscard]] friend constexpr Deadline sooner(Deadline a, Deadline b) noexcept {
    Deadline both = a.at_ <= b.at_ ? a : b;
    both.cancellation_ = a.cancellation_ != nullptr ? a.cancellation_ : b.cancellation_;
    return both;
  }

 private:
  Clock::time_point at_;
  Cancellation const* cancellation_ = nullptr;
};

/// `duration` from now. One too long for the clock means never, a negative one means now.
template <class Rep, class Period>
[[nodiscard]] Deadline within(std::chrono::duration<Rep, Period> duration) noexcept {
  using Seconds = std::chrono::duration<double>;  // holds any duration, unlike the clock's ticks
  auto const now = Deadline::Clock::now();
  if (duration <= duration.zero()) return Deadline{now};
  if (!(Seconds{duration} < Seconds{(Deadline::Clock::time_point::max)() - now}))
    return Deadline::never();
  return Deadline{now + std::chrono::ceil<Deadline::Clock::duration>(duration)};
}

/// The given moment.
[[nodiscard]] constexpr Deadline until(Deadline::Clock::time_point at) noexcept {
  return Deadline{at};
}

}  // namespace lend
