// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts what this program takes from the heap by new, the libraries it loads included, and lets
// new fail on demand. Link allocation_counter.cpp into one program to have it there. Any thread.
#pragma once

#include <cstdint>

namespace lend::test {

/// Calls of any operator new since the program began.
[[nodiscard]] std::uint64_t allocations() noexcept;
/// Blocks that were taken by new and not deleted.
[[nodiscard]] std::int64_t blocks_held() noexcept;

/// While it lives, each new of this thread fails after the first `allowed` ones.
class Famine {
 public:
  explicit Famine(std::uint64_t allowed) noexcept;
  Famine(Famine const&) = delete;
  Famine& operator=(Famine const&) = delete;
  ~Famine();
  /// Whether one has failed.
  [[nodiscard]] bool was_felt() const noexcept;
};

}  // namespace lend::test
