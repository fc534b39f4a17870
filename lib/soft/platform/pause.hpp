// SPDX-License-Identifier: MIT OR Apache-2.0
// A short pause inside a spin loop. Any thread.
#pragma once

#include <sched.h>

namespace lend::soft {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Repeats until it is done: spins a little, then yields the CPU, because on one core no other
/// thread makes progress meanwhile.
template <class Try>
void spin_until(Try&& is_done) noexcept {
  for (int spins = 0; !is_done(); ++spins) {
    if (spins < 100)
      pause();
    else
      ::sched_yield();
  }
}

}  // namespace lend::soft
