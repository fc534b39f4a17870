// SPDX-License-Identifier: MIT OR Apache-2.0
// What the protocols in shared memory need of the machine: atomics, a futex, a short pause.
//
// One place, so that test/interleave can replace it by a scheduler (LEND_SOFT_PLATFORM names its
// header) and run the same lines under every schedule and every death.
#pragma once

#ifdef LEND_SOFT_PLATFORM
#include LEND_SOFT_PLATFORM
#else

#include <soft/platform/pause.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace lend::soft {

template <class T>
using Atomic = std::atomic<T>;

inline constexpr int lock_spins = 100;  // about the time of a short critical section
// A bounded wait ends after so many full sleeps, a millisecond each, or so many interrupted ones.
inline constexpr int lock_doubts_max = 2;
inline constexpr int lock_rounds_max = 1000;

/// Orders nothing between CPUs: a process dies before the fence or after it.
inline void death_point() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

static_assert(sizeof(Atomic<std::uint32_t>) == sizeof(std::uint32_t));

/// Sleeps while the word is `seen`, until a deadline at most. True if the time was over, however
/// often a signal handler ran meanwhile: hence a deadline, not a duration that each signal would
/// restart. Not FUTEX_PRIVATE: the word is mapped by several processes. Source: futex(2).
inline bool futex_wait_for(Atomic<std::uint32_t>& word, std::uint32_t seen,
                           std::uint64_t nanoseconds) noexcept {
  constexpr std::uint64_t second = 1'000'000'000;
  timespec end{};
  ::clock_gettime(CLOCK_MONOTONIC, &end);
  nanoseconds += static_cast<std::uint64_t>(end.tv_nsec);
  end.tv_sec += static_cast<time_t>(nanoseconds / second);
  end.tv_nsec = static_cast<long>(nanoseconds % second);
  long result = 0;
  do {
    result =
        ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, &end, nullptr, FUTEX_BITSET_MATCH_ANY);
  } while (result != 0 && errno == EINTR);
  return result != 0 && errno == ETIMEDOUT;
}

/// For at most a millisecond.
inline bool futex_wait(Atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  return futex_wait_for(word, seen, 1'000'000);
}

inline void futex_wake_one(Atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace lend::soft

#endif
