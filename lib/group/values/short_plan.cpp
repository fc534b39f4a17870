// SPDX-License-Identifier: MIT OR Apache-2.0
// Which plan is of which call.
#include <group/values/call.hpp>
#include <group/values/short_plan.hpp>

#include <utility>

namespace lend::group {

bool ShortPlan::is_of(Call const& call) const noexcept {
  return collective == call.collective && root == call.root && block_bytes == call.block_bytes &&
         element_bytes == call.op.element_bytes && op == call.op.name;
}

ShortPlan const& ShortPlans::add(ShortPlan plan) {
  if (plans_.size() < plans_max) return plans_.emplace_back(std::move(plan));
  return plans_[next_++ % plans_max] = std::move(plan);
}

}  // namespace lend::group
