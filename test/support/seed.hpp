// SPDX-License-Identifier: MIT OR Apache-2.0
// Seeds of random tests: LEND_TEST_SEED replays one, otherwise each test names its own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace lend::test {

/// `count` seeds from 1 upwards, or only the one of LEND_TEST_SEED. Show the seed with INFO.
inline std::vector<std::uint64_t> seeds(std::uint64_t count) {
  if (char const* const chosen = std::getenv("LEND_TEST_SEED")) return {std::stoull(chosen)};
  std::vector<std::uint64_t> all;
  for (std::uint64_t seed = 1; seed <= count; ++seed) all.push_back(seed);
  return all;
}

}  // namespace lend::test
