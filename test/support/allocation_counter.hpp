// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts what this program takes from the heap by new, the libraries it loads included. Link
// allocation_counter.cpp into one program to have it there. Any thread.
#pragma once

#include <cstdint>

namespace lend::test {

/// Calls of any operator new since the program began.
[[nodiscard]] std::uint64_t allocations() noexcept;

}  // namespace lend::test
