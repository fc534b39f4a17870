// SPDX-License-Identifier: MIT OR Apache-2.0
// Percentiles of a histogram. One thread at a time.
#include <lend/observe/latency_histogram.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lend {

std::uint64_t LatencyHistogram::count() const noexcept {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::chrono::nanoseconds LatencyHistogram::begin_of(std::size_t index) const noexcept {
  double const begin = begin_in_units(index) * unit_;
  if (begin >= 0x1p63) return std::chrono::nanoseconds::max();
  return std::chrono::nanoseconds{std::llround(begin)};
}

std::chrono::nanoseconds LatencyHistogram::percentile(double percent) const noexcept {
  std::uint64_t const all = count();
  if (all == 0) return std::chrono::nanoseconds{0};
  double const share = std::clamp(percent, 0.0, 100.0) / 100;
  auto const wanted =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(share * double(all))));
  std::uint64_t seen = 0;
  std::size_t index = 0;
  while ((seen += count_of(index)) < wanted && index + 1 < bucket_count) ++index;
  return begin_of(index + 1);
}

void LatencyHistogram::merge(LatencyHistogram const& other) noexcept {
  bool const is_same = unit_ == other.unit_;
  for (std::size_t i = 0; i < bucket_count; ++i) {
    if (other.count_of(i) == 0) continue;
    double const middle = (begin_in_units(i) + begin_in_units(i + 1)) / 2 * other.unit_ / unit_;
    // Written so that one that is no number is 1, too.
    auto const bounded = middle > 1 ? std::min(middle, 0x1p63) : 1;
    auto const place =
        is_same ? (i + first_place) % bucket_count : place_of(static_cast<std::uint64_t>(bounded));
    counts_[place] += other.count_of(i);
  }
}

}  // namespace lend
