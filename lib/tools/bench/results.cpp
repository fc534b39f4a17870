// SPDX-License-Identifier: MIT OR Apache-2.0
// The table and the JSON of a bench.
#include <tools/bench/results.hpp>
#include <tools/format.hpp>
#include <tools/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

namespace lend::tools {

namespace {

constexpr double microsecond = 1e3;  // in ns
constexpr double gigabyte = 1e9;

double mean_of(Durations const& rounds) {
  return std::accumulate(rounds.begin(), rounds.end(), 0.0) / static_cast<double>(rounds.size());
}

Json buckets_of(LatencyHistogram const& histogram) {
  auto buckets = Json::array();
  for (std::size_t i = 0; i < LatencyHistogram::bucket_count; ++i)
    if (histogram.count_of(i) != 0)
      buckets.push_back({histogram.begin_of(i).count(), histogram.count_of(i)});
  return buckets;
}

/// To a tenth of a nanosecond.
double microseconds(double ns) {
  return std::round(ns * 10) / (10 * microsecond);
}

Json object_of(BenchRow const& row) {
  Json object{{"measure", row.is_latency ? "latency" : "bandwidth"},
              {"operation", row.load.operation},
              {"via", row.load.via},
              {"bytes", row.load.bytes},
              {"count", row.load.count}};
  if (!row.is_latency) {
    auto const messages = row.messages_per_second();
    object["bytes_per_s"] = std::llround(messages * static_cast<double>(row.load.bytes));
    object["messages_per_s"] = std::llround(messages);
    return object;
  }
  for (auto const& [name, percent] :
       std::initializer_list<std::pair<char const*, double>>{{"min_us", 0},
                                                             {"p50_us", 50},
                                                             {"p90_us", 90},
                                                             {"p99_us", 99},
                                                             {"p99_9_us", 99.9},
                                                             {"max_us", 100}})
    object[name] = row.is_sure(percent) ? Json(microseconds(row.percentile(percent))) : Json();
  object["mean_us"] = microseconds(mean_of(row.rounds));
  object["histogram_ns"] = buckets_of(row.histogram());
  return object;
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
  std::vector<Json> results;
  for (auto const& row : rows) results.push_back(object_of(row));
  return text_of(Json{{"schema", 1},
                      {"device", run.device},
                      {"kind", run.kind},
                      {"peer", run.peer},
                      {"notes", run.notes}},
                 "results", results);
}

}  // namespace lend::tools
