// SPDX-License-Identifier: MIT OR Apache-2.0
// Seeds of random tests: LEND_TEST_SEED replays one, otherwise each test names its own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace lend::test {

/// `count` seeds from `first` upwards, or only the one of LEND_TEST_SEED. Show the seed with INFO.
inline std::vector<std::uint64_t> seeds(std::uint64_t count, std::uint64_t first = 1) {
  if (char const* const chosen = std::getenv("LEND_TEST_SEED")) return {std::stoull(chosen)};
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(first + i);
  return all;
}

/// Another one each time, or that of LEND_TEST_SEED. Show it with CAPTURE.
inline unsigned seed_of_this_run() {
  char const* const chosen = std::getenv("LEND_TEST_SEED");
  return chosen != nullptr ? static_cast<unsigned>(std::stoul(chosen)) : std::random_device{}();
}

}  // namespace lend::test
