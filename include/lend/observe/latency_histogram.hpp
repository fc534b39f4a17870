// SPDX-License-Identifier: MIT OR Apache-2.0
// How long operations took, counted in buckets. A value; one thread at a time.
#pragma once

#include <lend/base/export.hpp>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lend {

namespace observe {
struct HistogramAccess;
}

/// Counts of durations, 16 buckets an octave: each duration is known to a sixteenth. Nothing is
/// allocated; 8 KiB.
///
/// Units:   durations are added in units of `nanoseconds_a_unit`, and reported in nanoseconds.
class LEND_EXPORT LatencyHistogram {
 public:
  static constexpr std::size_t buckets_an_octave = 16;
  static constexpr std::size_t bucket_count = 64 * buckets_an_octave;

  /// A channel's histogram counts ticks of its clock.
  explicit constexpr LatencyHistogram(double nanoseconds_a_unit = 1) noexcept
      : unit_{nanoseconds_a_unit} {}

  /// Units:   those of the constructor. 0 counts as 1, and what is above INT64_MAX as 2^64 less it:
  ///          two clocks may differ, and the first was ahead by that.
  void add(std::uint64_t duration) noexcept { ++counts_[place_of(duration)]; }
  /// Adds the counts of `other`. One of another unit is known to an eighth afterwards.
  void merge(LatencyHistogram const& other) noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept;
  /// The duration that `percent` in a hundred do not exceed: the upper end of its bucket. 0 without
  /// any.
  /// Shape:   0 to 100; other values count as the nearer of these.
  [[nodiscard]] std::chrono::nanoseconds percentile(double percent) const noexcept;

  /// Of the bucket at `index`, which is below bucket_count: where it begins, and what it counts.
  [[nodiscard]] std::chrono::nanoseconds begin_of(std::size_t index) const noexcept;
  [[nodiscard]] std::uint64_t count_of(std::size_t index) const noexcept {
    return counts_[(index + first_place) % bucket_count];
  }

 private:
  friend struct observe::HistogramAccess;

  // A double has the octave of a value in its exponent, and the sixteenth in the first four bits of
  // its mantissa: a few instructions. Source: IEEE 754-2008, 3.4.
  static constexpr unsigned below_bucket = 48;
  static constexpr std::size_t first_bucket = std::size_t{1023} << 4;  // of the value 1
  // Buckets have the places of their exponents' low bits, so that none is computed.
  static constexpr std::size_t first_place = first_bucket % bucket_count;

  [[nodiscard]] static std::size_t place_of(std::uint64_t duration) noexcept {
    // Converting a signed value takes one instruction.
    auto const value = static_cast<double>(static_cast<std::int64_t>(duration | 1));
    return (std::bit_cast<std::uint64_t>(value) >> below_bucket) % bucket_count;
  }
  [[nodiscard]] static double begin_in_units(std::size_t index) noexcept {
    return std::bit_cast<double>(std::uint64_t{index + first_bucket} << below_bucket);
  }

  double unit_;
  std::array<std::uint64_t, bucket_count> counts_{};
};

}  // namespace lend
