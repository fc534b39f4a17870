// SPDX-License-Identifier: MIT OR Apache-2.0
// The longest drain of a scope that nobody bounds. Read by any thread; set by a test only, before
// there is another.
#pragma once

#include <lend/channel/polling_scope.hpp>

#include <chrono>

namespace lend {

/// PollingScope::drain_max, or what a test that cannot wait for so long has put there.
[[nodiscard]] inline std::chrono::nanoseconds& drain_longest() noexcept {
  static constinit std::chrono::nanoseconds longest = PollingScope::drain_max;
  return longest;
}

}  // namespace lend
