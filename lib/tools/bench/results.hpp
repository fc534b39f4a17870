// SPDX-License-Identifier: MIT OR Apache-2.0
// What `lend bench` measured, for people, programs and plotters. Values.
#pragma once

#include <lend/observe/latency_histogram.hpp>

#include <tools/loops/rounds.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lend::tools {

/// One operation with messages of one size.
struct BenchRow {
  bool is_latency = false;
  Load load{};
  Durations rounds{};                      ///< of a latency: not empty
  std::chrono::duration<double> stream{};  ///< of a bandwidth: above 0

  /// Whether at least 10 rounds were slower: else a percentile says little.
  [[nodiscard]] bool is_sure(double percent) const noexcept;
  /// The ns that `percent` in a hundred rounds did not exceed.
  [[nodiscard]] double percentile(double percent) const noexcept;
  [[nodiscard]] LatencyHistogram histogram() const noexcept;
  [[nodiscard]] double messages_per_second() const noexcept;
};

/// What all rows have in common.
struct BenchRun {
  std::string device{}, kind{};
  std::string peer{};  ///< empty: a process of this host
  std::vector<std::string> notes{};
  std::string host{}, when{}, options{};  ///< for a picture
};

/// "4 KiB"
[[nodiscard]] std::string name_of_bytes(std::size_t bytes);
[[nodiscard]] std::string text_of(BenchRun const& run);
/// The head of the table that the rows of one kind are in.
[[nodiscard]] std::string_view head_of(bool is_latency) noexcept;
[[nodiscard]] std::string text_of(BenchRow const& row);
/// lib/guide/doctor.md has the fields. Ends with a line break.
[[nodiscard]] std::string json_of(BenchRun const& run, std::span<BenchRow const> rows);

/// Bars, some 20 lines; the last has what is slower than 99 % of the rounds.
[[nodiscard]] std::string bars_of(BenchRow const& row);
/// Percentiles of latencies, and bandwidths, against the size of messages; the distribution of the
/// latencies of the smallest. Source: W3C SVG 1.1.
[[nodiscard]] std::string svg_of(BenchRun const& run, std::span<BenchRow const> rows);
/// The text form of HdrHistogram, in microseconds.
/// Source: HdrHistogram, AbstractHistogram.outputPercentileDistribution().
[[nodiscard]] std::string hgrm_of(BenchRow const& row);

}  // namespace lend::tools
