// SPDX-License-Identifier: MIT OR Apache-2.0
// Spin, yield, sleep: what a wait does next. One per wait, on its thread.
#include <channel/waiter.hpp>
#include <observe/probes.hpp>

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <utility>

namespace lend::channel {

namespace {

// A few µs of polls: a little longer than a round trip of small messages on one host. Yielding
// within one would make it half as long again (0.63 µs to 0.95 µs at 50). Far more would be lost
// whenever the scheduler puts both ends on one CPU: 44 µs a message at 1000.
constexpr std::uint32_t adaptive_spins = 250;
// With more runnable threads than CPUs nearly all of them find nothing, and the thread that could
// send has no CPU meanwhile. Source: measured, test/bench/against_mpi.py with 4 and 8 ranks.
constexpr std::uint32_t crowded_spins = 4;
// A yield that finds no other thread takes less than one of these, one that switches takes more.
constexpr std::chrono::microseconds switch_time{2};
// So many quick yields in a row: this thread has its CPU to itself, also where a launcher bound it
// to one. After few the waits of a crowded program spin again too soon.
constexpr std::uint32_t quick_yields_before_spinning = 64;
// A peer that has not answered for this long is busy.
constexpr std::chrono::milliseconds yield_time{10};
constexpr std::chrono::microseconds nap_time{50};
// How often a sleeper polls even without a wake-up: a wake-up that a driver loses costs at most
// this much.
constexpr std::chrono::milliseconds sleep_time{100};

}  // namespace

WaitPlan WaitPlan::for_this_process(Wait how) noexcept {
  if (how == Wait::spin) return {.how = how, .spins = UINT32_MAX, .sleep_max = sleep_time};
  if (how == Wait::event) return {.how = how, .spins = 0, .sleep_max = sleep_time};
  // With one CPU the peer cannot run while this thread spins: two spinning processes on one core
  // cost a scheduler tick a message.
  cpu_set_t cpus;
  bool const one_cpu = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
  return {.how = how, .spins = one_cpu ? 0 : adaptive_spins, .sleep_max = sleep_time};
}

bool WaitPlan::note_yield(std::chrono::nanoseconds took) noexcept {
  if (took > switch_time) {
    quick_yields = 0;
    spins = std::min(spins, crowded_spins);
    return false;
  }
  if (++quick_yields < quick_yields_before_spinning) return false;
  quick_yields = 0;
  spins = adaptive_spins;
  return true;
}

bool Waiter::pause_longer(Deadline deadline) noexcept {
  auto const now = Deadline::Clock::now();
  if (now >= deadline.at() || deadline.is_cancelled()) return false;
  just_slept_ = false;
  if (plan_.how == Wait::adaptive) {
    if (!std::exchange(is_yielding_, true)) sleep_from_ = now + yield_time;
    if (now < sleep_from_) {
      sched_yield();
      ++plan_.counts.yields;
      if (plan_.note_yield(Deadline::Clock::now() - now)) pauses_ = 0;
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
