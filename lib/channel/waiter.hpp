// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens between two polls that found nothing. One per wait, on its thread.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/channel/builder.hpp>

#include <cstdint>

namespace lend {

/// How many polls to spin before yielding; asked once per channel, since it costs a system call.
struct WaitPlan {
  Wait how = Wait::adaptive;
  std::uint32_t spins = 0;

  [[nodiscard]] static WaitPlan for_this_process(Wait how) noexcept;
};

class Waiter {
 public:
  explicit Waiter(WaitPlan plan) noexcept : plan_{plan} {}

  /// Spins, yields or sleeps a little. False once the deadline has passed.
  [[nodiscard]] bool pause(Deadline deadline) noexcept {
    ++pauses_;
    if (pauses_ <= plan_.spins) {
      relax();
      return pauses_ % polls_per_clock_read != 0 || !deadline.has_passed();
    }
    return pause_longer(deadline);
  }
  /// Something happened: begin anew.
  void reset() noexcept { pauses_ = 0; }
  /// Whether it has waited so long that asking the device something costs little beside it.
  [[nodiscard]] bool has_slept() const noexcept { return has_slept_; }

 private:
  // Reading the clock costs about as much as a poll of an empty queue.
  static constexpr std::uint32_t polls_per_clock_read = 64;

  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  bool pause_longer(Deadline deadline) noexcept;

  WaitPlan plan_;
  std::uint32_t pauses_ = 0;
  Deadline::Clock::time_point sleep_from_{};
  bool has_slept_ = false;
};

}  // namespace lend
