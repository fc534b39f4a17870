// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows and columns of `lend top`.
#include <tools/format.hpp>
#include <tools/top_table.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>

namespace lend::tools {

namespace {

using observe::Counts, observe::ProcessCounts, observe::Tallies, observe::Totals;

/// Of one kind of work in some time.
struct Work {
  std::uint64_t done = 0, failed = 0, bytes = 0;
  std::array<std::uint64_t, observe::latency_bounds + 1> latencies{};
  std::uint64_t timed = 0;
  double seconds = 0;  ///< of those
};

/// A count that a file says is less than before is another process's.
std::uint64_t more(std::uint64_t now, std::uint64_t before) noexcept {
  return now < before ? 0 : now - before;
}

Work work_of(Totals const& now, Totals const& before) {
  Work work;
  for (std::size_t i = 0; i < now.operations.size(); ++i) {
    auto const& its = now.operations[i];
    auto const& was = before.operations[i];
    work.done += more(its.completed, was.completed);
    work.failed += more(its.failed, was.failed);
    work.bytes += more(its.bytes, was.bytes);
    for (std::size_t k = 0; k < work.latencies.size(); ++k)
      work.latencies[k] += more(its.latencies[k], was.latencies[k]);
    work.timed = std::accumulate(work.latencies.begin(), work.latencies.end(), std::uint64_t{0});
    work.seconds += std::max(0.0, its.seconds - was.seconds);
  }
  return work;
}

/// The bound that 99 of 100 latencies do not exceed.
std::string p99_of(Work const& work) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < observe::latency_bounds; ++i)
    if ((below += work.latencies[i]) * 100 >= work.timed * 99)
      return "<" + std::to_string(observe::latency_bound(i).count() / 1000);
  return ">1s";
}
static_assert(observe::latency_bound(observe::latency_bounds - 1) <
              std::chrono::milliseconds{1050});

/// A mean in microseconds, of 7 characters; of 10 s and more in seconds.
std::string mean_of(Work const& work) {
  double const mean = work.seconds / double(work.timed) * 1e6;
  if (mean >= 1e7) return formatted("%6.0fs", mean / 1e6);
  return formatted(mean < 1e4 ? "%7.2f" : "%7.0f", mean);
}

class Table {
 public:
  explicit Table(double seconds) : seconds_{seconds} {}

  void begin(ProcessCounts const& process) {
    process_ = formatted("%7u %-9.9s ", process.process, process.program.c_str());
  }
  void add(std::string const& name, observe::ChannelCounts const& channels, Work const& work,
           bool has_latencies = true) {
    auto const rate = [this](std::uint64_t count) { return double(count) / seconds_; };
    text_ += process_ + formatted("%-9.9s %5llu %6llu %8.0f %6.0f %7.1f ", name.c_str(),
                                  static_cast<unsigned long long>(channels.working),
                                  static_cast<unsigned long long>(channels.broken), rate(work.done),
                                  rate(work.failed), rate(work.bytes) / 1e6);
    text_ += work.timed == 0 ? formatted("%7s %7s\n", "-", "-")
                             : formatted("%s %7s\n", mean_of(work).c_str(),
                                         has_latencies ? p99_of(work).c_str() : "-");
  }
  void add_part(std::string_view name, Tallies::OfPart const& now, Tallies::OfPart const& before) {
    auto const lacking = more(now.lacking, before.lacking);
    if (now.used + now.free + lacking == 0) return;
    pools_ +=
        process_ + formatted("%-10.10s %8llu %8llu %8.0f\n", std::string{name}.c_str(),
                             static_cast<unsigned long long>(now.used),
                             static_cast<unsigned long long>(now.free), double(lacking) / seconds_);
  }
  [[nodiscard]] static std::string head() {
    return formatted("%7s %-9s %-9s %5s %6s %8s %6s %7s %7s %7s\n", "PID", "PROGRAM", "NAME",
                     "CHANS", "BROKEN", "DONE/s", "FAIL/s", "MB/s", "MEAN us", "P99 us");
  }
  [[nodiscard]] std::string text() && {
    if (!pools_.empty())
      text_ += formatted("%7s %-9s %-10s %8s %8s %8s\n", "PID", "PROGRAM", "POOLS", "USED", "FREE",
                         "LACKED/s") +
               pools_;
    return std::move(text_);
  }

 private:
  double seconds_;
  std::string process_{};
  std::string text_{};
  std::string pools_{};
};

void add_channels(Table& table, Counts const& now, Counts const& before) {
  for (auto const& [name, totals] : now.series) {
    auto const was = std::ranges::find(before.series, name, &observe::Series::name);
    auto const work = work_of(totals, was == before.series.end() ? Totals{} : was->totals);
    auto const& channels = totals.channels;
    if (channels.working + channels.broken == 0 && work.done + work.failed == 0) continue;
    table.add(name.empty() ? "-" : name, channels, work);
  }
}

void add_tallies(Table& table, Tallies const& now, Tallies const& before) {
  if (now.sent + now.received != 0)
    table.add("messages", {},
              {.done = more(now.sent, before.sent) + more(now.received, before.received),
               .bytes = more(now.sent_bytes, before.sent_bytes) +
                        more(now.received_bytes, before.received_bytes)});
  std::uint64_t calls = 0;
  Work work;
  for (std::size_t i = 0; i < now.calls.size(); ++i) {
    calls += now.calls[i].succeeded + now.calls[i].failed;
    work.done += more(now.calls[i].succeeded, before.calls[i].succeeded);
    work.failed += more(now.calls[i].failed, before.calls[i].failed);
    work.seconds += double(more(now.calls[i].nanoseconds, before.calls[i].nanoseconds)) * 1e-9;
  }
  work.timed = work.done;
  if (calls != 0) table.add("calls", {}, work, false);
  for (std::size_t i = 0; i < now.pools.size(); ++i)
    table.add_part(observe::pool_parts[i], now.pools[i], before.pools[i]);
}

}  // namespace

std::string top_table(Looked const& before, Looked const& now, double seconds, command::Look look) {
  std::size_t running = 0;
  std::uint32_t hidden = 0;
  Table table{seconds};
  for (auto const& [path, process] : now) {
    if (!process.is_running) continue;
    ++running;
    hidden += process.hidden;
    auto const was = before.find(path);
    static Counts const none{};
    // Of a process that came since, all of it.
    Counts const& counts = was == before.end() ? none : was->second.counts;
    table.begin(process);
    add_channels(table, process.counts, counts);
    add_tallies(table, process.counts.tallies, counts.tallies);
  }
  auto text = toned(look, command::Tone::strong,
                    std::to_string(running) + " running, " + std::to_string(now.size() - running) +
                        " ended, in the last " + formatted("%.1f s", seconds)) +
              '\n' + Table::head() + std::move(table).text();
  if (hidden != 0)
    text += "not in it: what " + std::to_string(hidden) +
            " channels, transports and groups count, which found no place in a file\n";
  return text;
}

observe::Counts sum_of(Looked const& all) {
  Counts sum;
  for (auto const& [path, process] : all) sum += process.counts;
  return sum;
}

}  // namespace lend::tools
