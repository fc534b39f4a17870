// SPDX-License-Identifier: MIT OR Apache-2.0
// What connects devices of iWARP. Any thread.
#pragma once

#include <lend/doctor/pair_connector.hpp>

#include <verbs/device/built_with.hpp>

#if LEND_BUILT_WITH_CM
#include <lend/cm/pair_connector.hpp>
#endif

namespace lend::tools {

/// None in a build without rdma_cm.
[[nodiscard]] inline PairConnector const* by_cm() noexcept {
#if LEND_BUILT_WITH_CM
  return &cm_pair_connector();
#else
  return nullptr;
#endif
}

}  // namespace lend::tools
