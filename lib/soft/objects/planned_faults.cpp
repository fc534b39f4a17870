// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeping planned faults by number, and counting up to them.
#include <soft/objects/planned_faults.hpp>

#include <soft/objects/context.hpp>
#include <soft/platform/reason.hpp>

#include <algorithm>
#include <utility>

namespace lend::soft {

namespace {

PlannedFault const* find(std::vector<PlannedFault> const& faults, std::uint64_t number) noexcept {
  auto const found =
      std::lower_bound(faults.begin(), faults.end(), number,
                       [](PlannedFault const& fault, std::uint64_t at) { return fault.at < at; });
  return found != faults.end() && found->at == number ? &*found : nullptr;
}

}  // namespace

void PlannedFaults::plan(std::vector<PlannedFault> const& planned) {
  std::vector<PlannedFault> operations;
  std::vector<PlannedFault> calls;
  for (auto const& fault : planned)
    (fault.kind == PlannedFault::Kind::control_call ? calls : operations).push_back(fault);
  for (auto* const faults : {&operations, &calls})
    std::stable_sort(
        faults->begin(), faults->end(),
        [](PlannedFault const& one, PlannedFault const& two) { return one.at < two.at; });
  std::lock_guard const guard{control_};
  operations_ = std::move(operations);
  calls_ = std::move(calls);
  operation_.store(0, std::memory_order_relaxed);
  call_.store(0, std::memory_order_relaxed);
  any_.store(!planned.empty(), std::memory_order_relaxed);
}

PlannedFault const* PlannedFaults::next_operation() noexcept {
  return find(operations_, operation_.fetch_add(1, std::memory_order_relaxed) + 1);
}

int PlannedFaults::next_control_call() noexcept {
  if (!are_planned()) return 0;
  std::lock_guard const guard{control_};
  auto const* const fault = find(calls_, call_.fetch_add(1, std::memory_order_relaxed) + 1);
  return fault == nullptr ? 0 : static_cast<int>(fault->amount);
}

int planned_failure(ibv_context* context) noexcept {
  auto const error = Context::of(context).faults.next_control_call();
  return error == 0 ? 0
                    : fail(error,
                           "a fault was injected into this call: remove it from the fault plan, or "
                           "try again");
}

}  // namespace lend::soft
