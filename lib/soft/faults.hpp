// SPDX-License-Identifier: MIT OR Apache-2.0
// A context's planned faults, met by its operations and control calls. Any thread, but for inject.
#pragma once

#include <lend/soft/faults.hpp>

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace lend::soft {

class Outcome;
struct QueuePair;
struct Work;

class Faults {
 public:
  /// May throw std::bad_alloc; then the plan before it stays. Nobody posts meanwhile; control calls
  /// may be made.
  void plan(FaultPlan const& plan);

  /// One relaxed load for who plans nothing.
  [[nodiscard]] bool are_planned() const noexcept { return any_.load(std::memory_order_relaxed); }
  /// Counts an operation; what is planned for it, or null.
  [[nodiscard]] PlannedFault const* next_operation() noexcept;
  /// Counts a control call; the errno planned for it, or 0.
  [[nodiscard]] int next_control_call() noexcept;

 private:
  std::atomic<bool> any_{false};
  std::vector<PlannedFault> operations_;  // by number
  std::mutex control_;
  std::vector<PlannedFault> calls_;  // by number; under control_
  std::atomic<std::uint64_t> operation_{0};
  std::atomic<std::uint64_t> call_{0};
};

/// Counts a control call; the errno planned for it, which is then this thread's, or 0.
/// The entries of provider() ask for themselves.
[[nodiscard]] int planned_failure(ibv_context*) noexcept;

/// A fault that strikes before its work. The caller holds send_lock, and no rx.
void strike(QueuePair&, PlannedFault const&) noexcept;
/// What became of work with a fault on it that holds it up, loses it or ends it. Empty: it is to be
/// done as if there were none.
[[nodiscard]] std::optional<Outcome> meet_fault(QueuePair&, Work const&) noexcept;

}  // namespace lend::soft
