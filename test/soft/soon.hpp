// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for what takes milliseconds.
#pragma once

#include <sched.h>

#include <chrono>

namespace lend::test {

/// Far beyond what it takes, for a loaded machine.
inline constexpr std::chrono::seconds soon{20};

/// Whether it does so soon.
template <class Condition>
bool comes_true(Condition&& condition) {
  auto const end = std::chrono::steady_clock::now() + soon;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::sched_yield();
  }
  return true;
}

}  // namespace lend::test
