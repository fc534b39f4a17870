// SPDX-License-Identifier: MIT OR Apache-2.0
// The table and the JSON of a bench.
#include <tools/bench/results.hpp>
#include <tools/format.hpp>
#include <tools/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lend::tools {

namespace {

constexpr double microsecond = 1e3;  // in ns
constexpr double gigabyte = 1e9;

double mean_of(Durations const& rounds) {
  return std::accumulate(rounds.begin(), rounds.end(), 0.0) / static_cast<double>(rounds.size());
}

std::string buckets_of(LatencyHistogram const& histogram) {
  std::string json{'['};
  for (std::size_t i = 0; i < LatencyHistogram::bucket_count; ++i) {
    if (histogram.count_of(i) == 0) continue;
    if (json.size() > 1) json += ", ";
    json += formatted("[%lld, %llu]", static_cast<long long>(histogram.begin_of(i).count()),
                      static_cast<unsigned long long>(histogram.count_of(i)));
  }
  return json += ']';
}

std::string object_of(BenchRow const& row) {
  auto const head = "\"operation\": " + json_of(row.load.operation) +
                    ", \"via\": " + json_of(row.load.via) +
                    ", \"bytes\": " + std::to_string(row.load.bytes) +
                    ", \"count\": " + std::to_string(row.load.count);
  if (!row.is_latency)
    return "{\"measure\": \"bandwidth\", " + head +
           formatted(", \"bytes_per_s\": %.0f, \"messages_per_s\": %.0f}",
                     row.messages_per_second() * static_cast<double>(row.load.bytes),
                     row.messages_per_second());
  auto const us = [&](double percent) {
    return row.is_sure(percent) ? formatted("%.4f", row.percentile(percent) / microsecond)
                                : std::string{"null"};
  };
  return "{\"measure\": \"latency\", " + head + ", \"min_us\": " + us(0) +
         ", \"p50_us\": " + us(50) + ", \"p90_us\": " + us(90) + ", \"p99_us\": " + us(99) +
         ", \"p99_9_us\": " + us(99.9) + ", \"max_us\": " + us(100) +
         formatted(", \"mean_us\": %.4f", mean_of(row.rounds) / microsecond) +
         ", \"histogram_ns\": " + buckets_of(row.histogram()) + '}';
}

}  // namespace

std::string name_of_bytes(std::size_t bytes) {
  constexpr std::size_t kibibyte = 1024;
  if (bytes % (kibibyte * kibibyte * kibibyte) == 0)
    return std::to_string(bytes / kibibyte / kibibyte / kibibyte) + " GiB";
  if (bytes % (kibibyte * kibibyte) == 0)
    return std::to_string(bytes / kibibyte / kibibyte) + " MiB";
  if (bytes % kibibyte == 0) return std::to_string(bytes / kibibyte) + " KiB";
  return std::to_string(bytes) + " B";
}

double BenchRow::percentile(double percent) const noexcept {
  auto const all = static_cast<double>(rounds.size());
  constexpr double rounding = 1e-9;  // 99.9 is no number of binary digits
  auto const rank = std::clamp(std::ceil(percent * all / 100 - rounding), 1.0, all);
  return rounds[static_cast<std::size_t>(rank) - 1];
}

bool BenchRow::is_sure(double percent) const noexcept {
  if (percent <= 0 || percent >= 100) return true;  // the least and the most are what they are
  constexpr double slower_rounds = 10, rounding = 1e-6;
  return static_cast<double>(rounds.size()) * (1 - percent / 100) + rounding >= slower_rounds;
}

LatencyHistogram BenchRow::histogram() const noexcept {
  LatencyHistogram histogram;
  for (double const round : rounds) histogram.add(static_cast<std::uint64_t>(std::llround(round)));
  return histogram;
}

double BenchRow::messages_per_second() const noexcept {
  return static_cast<double>(load.count) / stream.count();
}

std::string text_of(BenchRun const& run) {
  auto text = run.device + " (" + run.kind + "), " +
              (run.peer.empty() ? "two processes of this host" : "to " + run.peer) + '\n';
  for (auto const& note : run.notes) text += "note: " + note + '\n';
  return text;
}

std::string_view head_of(bool is_latency) noexcept {
  return is_latency
             ? "\nlatency, us     bytes      p50      p90      p99    p99.9      max   rounds\n"
             : "\nbandwidth       bytes         GB/s   messages/s  messages\n";
}

std::string text_of(BenchRow const& row) {
  auto const head =
      formatted("%-11.11s%10s", row.load.operation.data(), name_of_bytes(row.load.bytes).c_str());
  if (!row.is_latency)
    return head +
           formatted(" %12.3f %12.0f %9llu\n",
                     row.messages_per_second() * static_cast<double>(row.load.bytes) / gigabyte,
                     row.messages_per_second(), static_cast<unsigned long long>(row.load.count));
  auto text = head;
  for (double const percent : {50.0, 90.0, 99.0, 99.9, 100.0})
    text += row.is_sure(percent) ? formatted(" %8.2f", row.percentile(percent) / microsecond)
                                 : "        -";
  return text + formatted(" %8llu\n", static_cast<unsigned long long>(row.load.count));
}

std::string json_of(BenchRun const& run, std::span<BenchRow const> rows) {
  std::string json = "{\"schema\": 1, \"device\": " + json_of(run.device) +
                     ", \"kind\": " + json_of(run.kind) + ", \"peer\": " + json_of(run.peer) +
                     ", \"notes\": [";
  for (auto const& note : run.notes) (json += json.back() == '[' ? "" : ", ") += json_of(note);
  json += "], \"results\": [";
  std::string_view separator = "\n  ";
  for (auto const& row : rows) {
    (json += separator) += object_of(row);
    separator = ",\n  ";
  }
  return json += "\n]}\n";
}

}  // namespace lend::tools
