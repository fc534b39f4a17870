// SPDX-License-Identifier: MIT OR Apache-2.0
// All that counts in this process, and what that has counted which is no more. Any thread.
#pragma once

#include <lend/observe/channel_metrics.hpp>

#include <observe/tally.hpp>

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lend::observe {

class Observer;

/// Bounds of the buckets that metrics have of latencies: 1 us to 1 s by 4.
inline constexpr std::size_t latency_bounds = 11;
[[nodiscard]] constexpr std::chrono::nanoseconds latency_bound(std::size_t index) noexcept {
  return std::chrono::nanoseconds{std::int64_t{1000} << 2 * index};
}

/// What all channels of one name have counted.
struct Totals {
  struct OfOperation {
    std::uint64_t posted = 0, completed = 0, failed = 0, flushed = 0, bytes = 0;
    std::array<std::uint64_t, latency_bounds + 1> latencies{};  // the last: above all bounds
    double seconds = 0;                                         // of all latencies
  };
  std::array<OfOperation, 5> operations{};  // by Operation
  PeerLoanMetrics peer_loans{};
  std::uint64_t room_waits = 0;
  std::uint64_t breaks = 0;
  std::uint64_t working = 0, broken = 0;  // channels that are
};

/// Observers of one name, by its place.
struct Series {
  std::string name;
  Totals totals{};
};

/// What the whole process has counted.
struct Counts {
  std::vector<Series> series{};
  Tallies tallies{};
};

class Registry {
 public:
  /// A forked child has its own: it takes no lock that a thread of its parent may have held, and
  /// none of its parent's observers. Throws std::bad_alloc.
  [[nodiscard]] static Registry& of_this_process();
  Registry(Registry const&) = delete;
  Registry& operator=(Registry const&) = delete;

  /// Of what is observed by that name. Throws std::bad_alloc.
  [[nodiscard]] std::size_t series_of(std::string_view name);
  /// Of an Observer or a Tally.
  template <class Counting>
  void join(Counting& it) noexcept;
  /// What it has counted stays. Of no effect in a forked child, if it is the parent's.
  template <class Counting>
  void leave(Counting& it) noexcept;
  /// Throws std::bad_alloc.
  [[nodiscard]] Counts counts() const;

 private:
  explicit Registry(Registry* of_parent) noexcept;
  [[nodiscard]] Observer*& first_of(Observer const&) noexcept { return first_observer_; }
  [[nodiscard]] Tally*& first_of(Tally const&) noexcept { return first_tally_; }
  static void add(Observer const& observer, Counts& to) noexcept;
  static void add(Tally const& tally, Counts& to) noexcept;

  static constexpr std::size_t names_max = 64;

  ::pid_t const process_;
  Registry* const of_parent_;  // for leak checkers
  std::mutex mutable mutex_{};
  Counts ended_{};
  Observer* first_observer_ = nullptr;
  Tally* first_tally_ = nullptr;
};

}  // namespace lend::observe
