// SPDX-License-Identifier: MIT OR Apache-2.0
#include <channel/waiter.hpp>

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace lend {

namespace {

// A few µs of polls: a little longer than a round trip of small messages on one host. Yielding
// within one would make it half as long again (0.63 µs to 0.95 µs at 50). Far more would be lost
// whenever the scheduler puts both ends on one CPU: 44 µs a message at 1000.
constexpr std::uint32_t adaptive_spins = 250;
// A peer that has not answered for this long is busy with something else.
constexpr std::chrono::milliseconds yield_time{10};
constexpr std::chrono::microseconds sleep_time{50};

}  // namespace

WaitPlan WaitPlan::for_this_process(Wait how) noexcept {
  if (how == Wait::spin) return {how, UINT32_MAX};
  // With one CPU the peer cannot run while this thread spins: two spinning processes on one core
  // cost a scheduler tick a message.
  cpu_set_t cpus;
  bool const one_cpu = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
  return {how, one_cpu ? 0 : adaptive_spins};
}

bool Waiter::pause_longer(Deadline deadline) noexcept {
  auto const now = Deadline::Clock::now();
  if (now >= deadline.at()) return false;
  if (pauses_ == plan_.spins + 1) sleep_from_ = now + yield_time;
  if (now < sleep_from_) {
    sched_yield();
    return true;
  }
  auto const sleep = std::min<Deadline::Clock::duration>(sleep_time, deadline.left());
  timespec const length{
      0, static_cast<long>(std::chrono::duration_cast<std::chrono::nanoseconds>(sleep).count())};
  nanosleep(&length, nullptr);
  has_slept_ = true;
  return true;
}

}  // namespace lend
