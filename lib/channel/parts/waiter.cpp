// SPDX-License-Identifier: MIT OR Apache-2.0
// Spin, yield, sleep: what a wait does next. One per wait, on its thread.
#include <channel/parts/waiter.hpp>
#include <observe/probes.hpp>

#include <time.h>

#include <algorithm>
#include <utility>

namespace lend::channel {

namespace {

// A peer that has not answered for this long is busy.
constexpr std::chrono::milliseconds yield_time{10};
constexpr std::chrono::microseconds nap_time{50};
// How often a sleeper polls even without a wake-up: a wake-up that a driver loses costs at most
// this much.
constexpr std::chrono::milliseconds sleep_time{100};

}  // namespace

WaitPlan WaitPlan::for_this_process(Wait how) noexcept {
  if (how == Wait::spin)
    return {.how = how, .rule = {.spins = UINT32_MAX}, .sleep_max = sleep_time};
  if (how == Wait::event) return {.how = how, .sleep_max = sleep_time};
  return {.how = how, .rule = base::SpinRule::of_this_thread(), .sleep_max = sleep_time};
}

bool Waiter::pause_longer(Deadline deadline) noexcept {
  auto const now = Deadline::Clock::now();
  if (now >= deadline.at() || deadline.is_cancelled()) return false;
  just_slept_ = false;
  if (plan_.how == Wait::adaptive) {
    if (!std::exchange(is_yielding_, true)) sleep_from_ = now + yield_time;
    if (now < sleep_from_) {
      ++plan_.counts.yields;
      if (plan_.rule.yield(now)) pauses_ = 0;
      return true;
    }
  }
  if (!is_armed_) {
    // An earlier completion need not wake it: the caller polls once more.
    is_armed_ = sleeper_.arm();
    if (!is_armed_) {
      sleeper_.look();  // a sleep would
      nap(deadline);
    }
    return true;
  }
  is_armed_ = false;
  has_slept_ = true;
  just_slept_ = true;
  ++plan_.counts.sleeps;
  observe::probe_sleep();
  sleeper_.sleep(sooner(sooner(deadline, within(plan_.sleep_max)), look_at_));
  return true;
}

void Waiter::nap(Deadline deadline) noexcept {
  auto const length = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::min<Deadline::Clock::duration>(nap_time, deadline.left()));
  timespec const request{0, static_cast<long>(length.count())};
  nanosleep(&request, nullptr);
  ++plan_.counts.naps;
  has_slept_ = true;
}

}  // namespace lend::channel
