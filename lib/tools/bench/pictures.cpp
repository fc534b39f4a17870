// SPDX-License-Identifier: MIT OR Apache-2.0
// Histograms, drawn.
#include <tools/bench/results.hpp>
#include <tools/format.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lend::tools {

namespace {

/// Neighbouring buckets of a histogram, drawn as one bar.
struct Bar {
  double begin_us = 0;
  std::uint64_t count = 0;
};

/// Bars from the fastest round to the one at 99 %, and one for all slower ones.
std::vector<Bar> bars_in(BenchRow const& row, std::size_t most) {
  auto const histogram = row.histogram();
  auto const until = row.percentile(99);
  std::vector<Bar> buckets;
  std::uint64_t slower = 0;
  for (std::size_t i = 0; i < LatencyHistogram::bucket_count; ++i) {
    auto const begin = static_cast<double>(histogram.begin_of(i).count());
    auto const count = histogram.count_of(i);
    if (begin > until)
      slower += count;
    else if (count != 0 || !buckets.empty())
      buckets.push_back({begin / 1e3, count});
  }
  auto const together = (buckets.size() + most - 1) / most;
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (i % together == 0)
      bars.push_back(buckets[i]);
    else
      bars.back().count += buckets[i].count;
  }
  bars.push_back({until / 1e3, slower});
  return bars;
}

std::uint64_t highest_of(std::vector<Bar> const& bars) {
  return std::max<std::uint64_t>(1, std::ranges::max(bars, {}, &Bar::count).count);
}

std::string title_of(BenchRow const& row) {
  return std::string{row.load.operation} + ", " + std::to_string(row.load.bytes) + " bytes";
}

}  // namespace

std::string bars_of(BenchRow const& row) {
  constexpr std::size_t width = 50;
  auto const bars = bars_in(row, 20);
  auto const highest = highest_of(bars);
  auto text = "\n" + title_of(row) + '\n';
  for (auto const& bar : bars) {
    // What is there at all is seen.
    auto const length = (bar.count * width + highest - 1) / highest;
    bool const is_last = &bar == &bars.back();
    text += formatted("%s%10.3f us  %9llu  ", is_last ? ">" : " ", bar.begin_us,
                      static_cast<unsigned long long>(bar.count));
    text.append(length, '#') += '\n';
  }
  return text;
}

std::string hgrm_of(BenchRow const& row) {
  constexpr double ticks_a_half = 5;  // lines while the share of slower rounds halves once
  auto const& rounds = row.rounds;
  auto const all = static_cast<double>(rounds.size());
  std::string text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n";
  for (double share = 0; share < 1 - 0.5 / all;) {
    auto const value = row.percentile(share * 100);
    auto const upto = std::ranges::upper_bound(rounds, value) - rounds.begin();
    text += formatted("%12.3f %2.12f %10lld %14.2f\n", value / 1e3, share,
                      static_cast<long long>(upto), 1 / (1 - share));
    auto const halves = std::floor(std::log2(1 / (1 - share))) + 1;
    share += 1 / (ticks_a_half * std::exp2(halves));
  }
  auto const mean = std::accumulate(rounds.begin(), rounds.end(), 0.0) / all;
  auto const squares =
      std::accumulate(rounds.begin(), rounds.end(), 0.0,
                      [&](double sum, double x) { return sum + (x - mean) * (x - mean); });
  text += formatted("%12.3f %2.12f %10lld\n", rounds.back() / 1e3, 1.0,
                    static_cast<long long>(rounds.size()));
  text += formatted("#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", mean / 1e3,
                    std::sqrt(squares / all) / 1e3);
  text += formatted("#[Max     = %12.3f, Total count    = %12lld]\n", rounds.back() / 1e3,
                    static_cast<long long>(rounds.size()));
  return text += formatted("#[Buckets = %12d, SubBuckets     = %12d]\n", 64,
                           static_cast<int>(LatencyHistogram::buckets_an_octave));
}

}  // namespace lend::tools
