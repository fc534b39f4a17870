// SPDX-License-Identifier: MIT OR Apache-2.0
// Lets each call or allocation of an attempt fail once.
#pragma once

#include <cstdint>
#include <new>

#include "support/allocation_counter.hpp"
#include "support/catch.hpp"

namespace lend::test {

/// Calls `attempt(n)` with n = 0, 1, 2, …: it lets the first n calls succeed and the next one fail,
/// and returns whether there was one that failed. Ends when there was none; then at least `fewest`
/// attempts must have had one. Returns how many.
template <class Attempt>
std::uint64_t for_each_failure(std::uint64_t fewest, Attempt attempt) {
  constexpr std::uint64_t most = 10'000;
  for (std::uint64_t before = 0;; ++before) {
    INFO("calls before the one that fails: " << before);
    REQUIRE(before < most);
    if (attempt(before)) continue;
    CHECK(before >= fewest);
    return before;
  }
}

/// Whether `call`, which may throw std::bad_alloc, needed more than `allowed` allocations. Its
/// program links allocation_counter.cpp.
template <class Call>
bool starved(std::uint64_t allowed, Call call) {
  Famine const famine{allowed};
  try {
    static_cast<void>(call());
  } catch (std::bad_alloc const&) {
  }
  return famine.was_felt();
}

}  // namespace lend::test
