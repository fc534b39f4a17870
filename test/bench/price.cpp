// SPDX-License-Identifier: MIT OR Apache-2.0
// What safety costs: each operation of 8 bytes, posted and completed, by raw verbs and by each
// layer of lend, and what all of them together take from the heap. On a device that does nothing,
// and on the soft device.
//
// Method: the ways take turns, so that a change of clock or neighbours meets all alike; the median
// of many short runs. price.py counts instructions with it.
// Usage: price [--json] [--keep-alive] [--metrics] [--second-thread] [--channels N]
//              [--once MULTIPLE_OF_16]
#include "null_device.hpp"
#include "number.hpp"
#include "price_ways.hpp"
#include "support/allocation_counter.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;

struct Options {
  bool json = false;
  bool keep_alive = false;     ///< channels that ask every second whether their peer is there
  bool metrics = false;        ///< channels that count; LEND_RECORD makes them record, too
  bool second_thread = false;  ///< one more in the process, that does nothing
  std::uint64_t channels = 1;
  std::uint64_t once = 0;  ///< so many operations of each way and channel, unprinted: for price.py
};

/// price.py finds the runs by this name.
extern "C" [[gnu::noinline]] bool lend_bench_run(Way way, LoopBack* ends, std::size_t size,
                                                 std::uint64_t count) {
  return way({ends, size}, count);
}

constexpr std::size_t runs = 101;
constexpr std::uint64_t operations_per_run = 2048;
static_assert(operations_per_run % together == 0);

struct Figures {
  std::array<double, way_names.size()> medians{};  // ns
  std::uint64_t allocations = 0;                   // of all runs but the first of each way
};

std::optional<Figures> measure_row(Row const& row, std::vector<LoopBack>& ends) {
  auto const count =
      std::max<std::uint64_t>(operations_per_run / ends.size() / together, 1) * together;
  Figures figures;
  std::array<std::vector<double>, way_names.size()> all;
  for (std::size_t run = 0; run < runs; ++run)
    for (std::size_t way = 0; way < way_names.size(); ++way) {
      if (row.ways[way] == nullptr) continue;
      auto const allocations = test::allocations();
      auto const started = std::chrono::steady_clock::now();
      if (!lend_bench_run(row.ways[way], ends.data(), ends.size(), count)) return std::nullopt;
      std::chrono::duration<double, std::nano> const took =
          std::chrono::steady_clock::now() - started;
      // A queue pair's first direct send takes what one that is never used does without.
      if (run > 0) figures.allocations += test::allocations() - allocations - row.own_allocations;
      all[way].push_back(took.count() / double(count * ends.size()));
    }
  for (std::size_t way = 0; way < way_names.size(); ++way) {
    if (all[way].empty()) continue;
    std::nth_element(all[way].begin(), all[way].begin() + runs / 2, all[way].end());
    figures.medians[way] = all[way][runs / 2];
  }
  return figures;
}

void show(Options const& options, char const* device, Row const& row, Figures const& figures) {
  if (options.json) {
    std::printf("{\"device\": \"%s\", \"operation\": \"%s\", \"channels\": %llu", device,
                row.operation.data(), static_cast<unsigned long long>(options.channels));
    for (std::size_t way = 0; way < way_names.size(); ++way)
      if (figures.medians[way] > 0)  // datagrams have no unsafe layer
        std::printf(", \"%s_ns\": %.1f", way_names[way].data(), figures.medians[way]);
    std::printf(", \"allocations\": %llu}\n", static_cast<unsigned long long>(figures.allocations));
    return;
  }
  std::printf("%-6s %-16s", device, row.operation.data());
  for (double const median : figures.medians) std::printf(" %9.1f", median);
  std::printf(" %11llu\n", static_cast<unsigned long long>(figures.allocations));
}

Result<void> measure(Options const& options, char const* device) {
  LEND_TRY(context, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  bool const is_null = std::strcmp(device, "null") == 0;
  std::vector<LoopBack> ends;
  for (std::uint64_t i = 0; i < options.channels; ++i) {
    LEND_TRY(end, loop_back(domain, {.keep_alive = std::chrono::seconds{options.keep_alive},
                                     .observe = {.metrics = options.metrics}}));
    ends.push_back(std::move(end));
  }
  if (is_null) make_null(*context.native());
  std::vector<Row> rows;
  for (auto const some : {is_null ? rows_alone() : rows_looped(),
                          is_null ? rows_of_services() : std::span<Row const>{}})
    rows.insert(rows.end(), some.begin(), some.end());
  for (Row const& row : rows) {
    if (options.once != 0) {
      for (Way const way : row.ways)
        if (way != nullptr && !lend_bench_run(way, ends.data(), ends.size(), options.once))
          return Errc::system_failed;
      continue;
    }
    auto const figures = measure_row(row, ends);
    if (!figures) return Errc::system_failed;
    show(options, device, row, *figures);
  }
  return success();
}

int measure_all(Options const& options) {
  for (char const* const device : {"null", "soft"})
    if (auto const done = measure(options, device); !done) {
      std::fprintf(stderr, "price: %s: %s\n", device, done.error().message().c_str());
      return 1;
    }
  return 0;
}

bool parse(int count, char** words, Options& options) {
  auto const number = [](char const* word, std::uint64_t& value) {
    return parse_number(word, value) && value > 0;
  };
  for (int i = 1; i < count; ++i) {
    std::string_view const word{words[i]};
    if (word == "--json")
      options.json = true;
    else if (word == "--keep-alive")
      options.keep_alive = true;
    else if (word == "--metrics")
      options.metrics = true;
    else if (word == "--second-thread")
      options.second_thread = true;
    else if (word == "--channels" && i + 1 < count && number(words[i + 1], options.channels))
      ++i;
    else if (word == "--once" && i + 1 < count && number(words[i + 1], options.once) &&
             options.once % together == 0)
      ++i;
    else
      return false;
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  Options options;
  if (!parse(count, words, options)) {
    std::fputs(
        "price [--json] [--keep-alive] [--metrics] [--second-thread] [--channels N] "
        "[--once MULTIPLE_OF_16]\n",
        stderr);
    return 2;
  }
  if (!options.json && options.once == 0) {
    std::printf("ns per operation, post and completion, median of %zu runs, %llu channels\n", runs,
                static_cast<unsigned long long>(options.channels));
    std::printf("%-6s %-16s", "device", "operation");
    for (auto const name : way_names) std::printf(" %9s", name.data());
    std::puts(" allocations");
  }
  std::binary_semaphore end{0};
  std::jthread second;
  if (options.second_thread) second = std::jthread{[&end] { end.acquire(); }};
  int const status = measure_all(options);
  end.release();
  return status;
}
