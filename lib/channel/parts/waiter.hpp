// SPDX-License-Identifier: MIT OR Apache-2.0
// The pause between two empty polls: spin, yield or sleep. One per wait, on its thread.
#pragma once

#include <base/yielding.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/channel/builder.hpp>

#include <cstdint>

namespace lend::channel {

/// What the waits of one progress have done but for spinning.
struct WaitCounts {
  std::uint64_t yields = 0;
  std::uint64_t naps = 0;
  std::uint64_t sleeps = 0;
};

/// How the waits of one progress spin, yield and sleep.
struct WaitPlan {
  Wait how = Wait::adaptive;
  base::SpinRule rule{};  ///< none where waits sleep at once; ever where they only spin
  std::chrono::milliseconds sleep_max{0};
  WaitCounts counts{};

  [[nodiscard]] static WaitPlan for_this_process(Wait how) noexcept;
};

/// What a wait sleeps on: one completion queue, or those of a set.
class Sleeper {
 public:
  /// The next completion ends the next sleep(); one that is there already need not. False if the
  /// device refuses, or has no descriptor for it.
  [[nodiscard]] virtual bool arm() noexcept = 0;
  /// Until a completion, or `deadline`.
  virtual void sleep(Deadline deadline) noexcept = 0;
  /// A wait that never sleeps looks now and then at what sleep() looks at first.
  virtual void look() noexcept {}

 protected:
  Sleeper() = default;
  ~Sleeper() = default;
};

class Waiter {
 public:
  Waiter(WaitPlan& plan, Sleeper& sleeper) noexcept : plan_{plan}, sleeper_{sleeper} {}

  /// Spins, yields, or sleeps until a completion wakes it. The caller polls between two pauses.
  /// False once the deadline has passed.
  [[nodiscard]] bool pause(Deadline deadline) noexcept {
    ++pauses_;
    if (pauses_ <= plan_.rule.spins) {
      relax();
      if (pauses_ % polls_per_clock_read != 0) return true;
      if (plan_.rule.has_spun_enough(pauses_)) pauses_ = plan_.rule.spins;
      if (pauses_ % polls_per_look == 0) sleeper_.look();
      return !deadline.has_passed();
    }
    return pause_longer(deadline);
  }
  /// Something happened: start again.
  void reset() noexcept {
    pauses_ = 0;
    is_yielding_ = false;
    just_slept_ = false;
  }
  /// Whether it still only spins.
  [[nodiscard]] bool is_spinning() const noexcept {
    return !is_yielding_ && pauses_ <= plan_.rule.spins;
  }
  /// Sleeps no longer than until `look_at`.
  void look_at(Deadline look_at) noexcept { look_at_ = look_at; }
  /// Whether it has waited so long that a query of the device costs little in comparison.
  [[nodiscard]] bool has_slept() const noexcept { return has_slept_; }
  /// Whether the last pause slept until it was woken, or for long.
  [[nodiscard]] bool just_slept() const noexcept { return just_slept_; }
  /// Between two looks at memory.
  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  // Reading the clock costs about as much as a poll of an empty queue.
  static constexpr std::uint32_t polls_per_clock_read = base::SpinRule::polls_per_clock_read;
  // A system call, about once a millisecond.
  static constexpr std::uint32_t polls_per_look = 1u << 16;

  LEND_EXPORT bool pause_longer(Deadline deadline) noexcept;
  void nap(Deadline deadline) noexcept;

  WaitPlan& plan_;
  Sleeper& sleeper_;
  bool is_yielding_ = false;
  bool is_armed_ = false;
  bool has_slept_ = false;
  bool just_slept_ = false;
  std::uint32_t pauses_ = 0;
  Deadline::Clock::time_point sleep_from_{};
  Deadline look_at_ = Deadline::never();
};

}  // namespace lend::channel
