// SPDX-License-Identifier: MIT OR Apache-2.0
// How long one operation takes, as perftest and ucx_perftest measure it: every round is timed. send
// and write: half of a round trip, a write being noticed by its last byte; read: the whole of one.
// One thread.
#pragma once

#include <tools/loops/end.hpp>

#include <chrono>
#include <vector>

namespace lend::tools {

/// Of rounds, in ns, sorted.
using Durations = std::vector<double>;

/// When each round of the near end began.
class Stamps {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Stamps(std::uint64_t rounds) { begun_.reserve(rounds + 1); }
  void take() { begun_.push_back(Clock::now()); }
  /// Each round divided by `parts`.
  [[nodiscard]] Durations durations(double parts) const;

 private:
  std::vector<Clock::time_point> begun_;
};

/// Both ends call it with the same load. None at the far end.
/// Errors:  those of the channel; timed_out  the peer wrote nothing for 10 s.
[[nodiscard]] Result<Durations> measure_rounds(End& end, Load const& load);

}  // namespace lend::tools
