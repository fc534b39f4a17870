// SPDX-License-Identifier: MIT OR Apache-2.0
// Claimants of locks that are known by the number of their process.
#pragma once

#include <unistd.h>
#include <soft/platform/process.hpp>
#include <soft/platform/robust_lock.hpp>

#include <cstdint>

namespace lend::test {

inline bool process_is_gone(void const*, std::uint32_t instance) {
  return soft::start_time_of(static_cast<int>(instance)) == 0;
}
inline soft::Claimant this_process() {
  return {static_cast<std::uint32_t>(::getpid()), process_is_gone, nullptr};
}

}  // namespace lend::test
