// SPDX-License-Identifier: MIT OR Apache-2.0
// How long the tests of lost wake-ups run. Kernels' software devices under emulation are slow, so
// these get few arrivals by default; LEND_TEST_ARRIVALS says how many instead.
#pragma once

#include <lend/verbs/context.hpp>

#include <cstddef>
#include <cstdlib>

#include "support/thorough.hpp"

namespace lend::test {

inline std::size_t arrivals_to_take(Context const& device) {
  if (char const* const said = std::getenv("LEND_TEST_ARRIVALS"))
    return std::strtoull(said, nullptr, 10);
  if (device.kind() == DeviceKind::soft) return 100'000;
  return takes_all(device) ? 5'000 : 1'000;
}

}  // namespace lend::test
