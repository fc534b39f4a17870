// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a percentile of the histogram is that of the sorted values, to a sixteenth.
#include <lend/observe/latency_histogram.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/seed.hpp"

using namespace lend;

TEST_CASE("a percentile is the sorted values' one, at most a sixteenth above", "[observe]") {
  for (auto const seed : test::seeds(40)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    std::vector<std::uint64_t> values(1 + random() % 500);
    for (auto& value : values) value = 1 + (random() >> (8 + random() % 56));
    double const unit = random() % 2 == 0 ? 1 : 0.25;
    LatencyHistogram histogram{unit};
    for (auto const value : values) histogram.add(value);
    std::ranges::sort(values);

    CHECK(histogram.count() == values.size());
    for (double const percent : {0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
      auto const place =
          std::max<std::size_t>(1, std::size_t(std::ceil(percent / 100 * double(values.size()))));
      auto const exact = double(values[place - 1]) * unit;
      auto const told = double(histogram.percentile(percent).count());
      CHECK(told >= exact - 1);
      CHECK(told <= exact * (1 + 1.0 / 16) + 2);
    }
  }
}

TEST_CASE("an empty histogram has no percentile, 0 counts as 1, and what is below 0 as above",
          "[observe]") {
  LatencyHistogram histogram;
  CHECK(histogram.percentile(50).count() == 0);
  histogram.add(0);
  CHECK(histogram.count_of(0) == 1);
  histogram.add(std::uint64_t{3} - 8);  // of two clocks of which the first was ahead by 5
  histogram.add(5);
  CHECK(histogram.count_of(2 * LatencyHistogram::buckets_an_octave + 4) == 2);
  CHECK(histogram.percentile(150) == histogram.percentile(100));
}

TEST_CASE("durations that are too long for nanoseconds are in the last bucket that has any",
          "[observe]") {
  LatencyHistogram histogram;
  LatencyHistogram coarse{1e12};
  for (unsigned bit = 0; bit < 64; ++bit) histogram.add(std::uint64_t{1} << bit);
  for (auto const most : {UINT64_MAX, std::uint64_t{1} << 63, std::uint64_t{INT64_MAX}}) {
    histogram.add(most);
    coarse.add(most);
  }
  histogram.merge(coarse);

  std::uint64_t counted = 0;
  for (std::size_t i = 0; i < LatencyHistogram::bucket_count; ++i) counted += histogram.count_of(i);
  CHECK(counted == 64 + 3 + 3);
  CHECK(histogram.count_of(63 * LatencyHistogram::buckets_an_octave) == 5);
  CHECK(histogram.percentile(100) == std::chrono::nanoseconds::max());
}

TEST_CASE("merged histograms have the counts of both, whatever their units", "[observe]") {
  LatencyHistogram one;
  LatencyHistogram same;
  LatencyHistogram other{1000};
  one.add(5000);
  same.add(5000);
  other.add(5);

  one.merge(same);
  one.merge(other);

  CHECK(one.count() == 3);
  CHECK(one.percentile(100).count() >= 5000);
  CHECK(one.percentile(100).count() <= 5000 * 9 / 8);
}
