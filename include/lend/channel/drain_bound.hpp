// SPDX-License-Identifier: MIT OR Apache-2.0
// How long the end of a scope waits for its work. The thread of the scope.
#pragma once

#include <lend/base/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <optional>

namespace lend::channel {

/// What drain_within() and drain_until() of a scope have set. Not for programs.
class DrainBound {
 public:
  void set(std::chrono::nanoseconds longest) noexcept { longest_ = longest; }
  void set(Deadline until) noexcept { until_ = until; }
  /// Ends every drain by `deadline`, too.
  void end_before(Deadline deadline) noexcept { until_ = sooner(until_, deadline); }

  /// Of a drain that begins now and that the program asked for.
  [[nodiscard]] Deadline of_finish() const noexcept {
    return sooner(longest_ ? within(*longest_) : Deadline::never(), until_);
  }
  /// Of one that it did not ask for, which takes `most` at most.
  [[nodiscard]] Deadline of_end(std::chrono::nanoseconds most) const noexcept {
    return sooner(within((std::min)(longest_.value_or(most), most)), until_);
  }

 private:
  std::optional<std::chrono::nanoseconds> longest_{};
  Deadline until_ = Deadline::never();
};

}  // namespace lend::channel
