// SPDX-License-Identifier: MIT OR Apache-2.0
// The planned faults of a context, and its counters. Any thread, except the plan.
#pragma once

#include <lend/soft/planned_fault.hpp>

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace lend::soft {

class PlannedFaults {
 public:
  /// May throw std::bad_alloc; then the previous plan stays. No thread posts meanwhile; control
  /// calls are allowed.
  void plan(std::vector<PlannedFault> const& faults);

  /// One relaxed load for a context without a plan.
  [[nodiscard]] bool are_planned() const noexcept { return any_.load(std::memory_order_relaxed); }
  /// The same, for one who asks later. It lives as long as the context.
  [[nodiscard]] std::atomic<bool> const& planned() const noexcept { return any_; }
  /// Counts an operation; returns its planned fault, or null.
  [[nodiscard]] PlannedFault const* next_operation() noexcept;
  /// Counts a control call; returns its planned errno, or 0.
  [[nodiscard]] int next_control_call() noexcept;

 private:
  std::atomic<bool> any_{false};
  std::vector<PlannedFault> operations_;  // by number
  std::mutex control_;
  std::vector<PlannedFault> calls_;  // by number; under control_
  std::atomic<std::uint64_t> operation_{0};
  std::atomic<std::uint64_t> call_{0};
};

/// Counts a control call; returns its planned errno, which it also sets, or 0. The entries of
/// provider() call it themselves.
[[nodiscard]] int planned_failure(ibv_context*) noexcept;

}  // namespace lend::soft
