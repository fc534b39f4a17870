// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether a fault plan makes sense. Pure.
#pragma once

#include <lend/soft/faults.hpp>

namespace lend::soft {

/// Each fault of the plan can strike, or invalid_argument with the first that cannot, and why.
[[nodiscard]] Result<void> check(FaultPlan const&);

}  // namespace lend::soft
