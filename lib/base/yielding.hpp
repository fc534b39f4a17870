// SPDX-License-Identifier: MIT OR Apache-2.0
// Yields of waits that poll, and how long to spin before the next. One thread at a time each.
#pragma once

#include <base/unique_fd.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lend::base {

/// Who had this thread's CPU while it yielded.
enum class Ran : std::uint8_t {
  unknown,    ///< the processes of this host share no names
  waiter,     ///< another thread of lend's, which has waited there, too: maybe the one awaited
  unrelated,  ///< none of those
};

/// How many empty polls come before a wait yields, learned from its yields. One that took long let
/// another thread run. If that was a waiter, too, there are more of them than CPUs, and a thread
/// that spins may hold up the one that it waits for. An unrelated program gives nothing back for
/// the slice of some ms that it takes: then it pays to spin long.
struct SpinRule {
  std::uint32_t spins = 0;
  std::uint32_t quick_yields = 0;    ///< in a row
  std::uint32_t crowded_yields = 0;  ///< so many more do not believe in unrelated programs
  std::chrono::steady_clock::time_point patient_until{};

  /// About what a part of the slice takes that a yield to an unrelated program costs.
  static constexpr std::uint32_t patient_spins = 20'000;
  /// However long a poll takes: a thread that others share its CPU with must yield, and so name
  /// itself, within one slice of theirs.
  static constexpr std::chrono::microseconds patience{500};
  static constexpr std::uint32_t polls_per_clock_read = 64;

  /// Of a thread that knows nothing yet. None on one CPU, where the peer cannot run meanwhile.
  [[nodiscard]] static SpinRule of_this_thread() noexcept;
  /// Yields the CPU. `now` is the time. True if the wait may spin again.
  bool yield(std::chrono::steady_clock::time_point now) noexcept;
  /// Asked once in polls_per_clock_read polls: whether a long spin has taken its time.
  [[nodiscard]] bool has_spun_enough(std::uint32_t polls) noexcept {
    if (spins != patient_spins) return false;
    auto const now = std::chrono::steady_clock::now();
    if (polls <= polls_per_clock_read) patient_until = now + patience;
    return now >= patient_until;
  }
  /// A yield took so long, and meanwhile `ran`. True if the wait may spin again.
  bool note(std::chrono::nanoseconds took, Ran ran) noexcept;
};

/// What the file has room for: a line of cache each for the names that are given, and for who was
/// last on each CPU.
inline constexpr std::size_t waiter_names_bytes = 512 * 64;

/// From now on the threads of this process name themselves in `file`, which has
/// waiter_names_bytes; the first call counts. A hint only: whatever stands there is harmless.
/// Nothing changes without memory. Any thread.
void share_waiter_names(UniqueFd file) noexcept;

}  // namespace lend::base
