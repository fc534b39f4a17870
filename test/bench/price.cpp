// SPDX-License-Identifier: MIT OR Apache-2.0
// What safety costs: each operation of 8 bytes, posted and completed, by raw verbs and by each
// layer of lend. On a device that does nothing, and on the soft device.
//
// Method: the ways take turns, so that a change of clock or neighbours meets all alike; the median
// of many short runs. price.py counts instructions with it.
// Usage: price [--json] [--keep-alive] [--channels N] [--once MULTIPLE_OF_16]
#include "null_device.hpp"
#include "number.hpp"
#include "price_ways.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;

struct Options {
  bool json = false;
  bool keep_alive = false;  ///< channels that ask every second whether their peer is there
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

using Nanoseconds = std::array<double, way_names.size()>;

Nanoseconds time_row(Row const& row, std::vector<LoopBack>& ends) {
  auto const count =
      std::max<std::uint64_t>(operations_per_run / ends.size() / together, 1) * together;
  std::array<std::vector<double>, way_names.size()> all;
  for (std::size_t run = 0; run < runs; ++run)
    for (std::size_t way = 0; way < way_names.size(); ++way) {
      auto const started = std::chrono::steady_clock::now();
      if (!lend_bench_run(row.ways[way], ends.data(), ends.size(), count)) return {};
      std::chrono::duration<double, std::nano> const took =
          std::chrono::steady_clock::now() - started;
      all[way].push_back(took.count() / double(count * ends.size()));
    }
  Nanoseconds medians{};
  for (std::size_t way = 0; way < way_names.size(); ++way) {
    std::nth_element(all[way].begin(), all[way].begin() + runs / 2, all[way].end());
    medians[way] = all[way][runs / 2];
  }
  return medians;
}

void show(Options const& options, char const* device, Row const& row, Nanoseconds const& medians) {
  if (options.json) {
    std::printf("{\"device\": \"%s\", \"operation\": \"%s\", \"channels\": %llu", device,
                row.operation.data(), static_cast<unsigned long long>(options.channels));
    for (std::size_t way = 0; way < way_names.size(); ++way)
      std::printf(", \"%s_ns\": %.1f", way_names[way].data(), medians[way]);
    std::puts("}");
    return;
  }
  std::printf("%-6s %-16s", device, row.operation.data());
  for (double const median : medians) std::printf(" %9.1f", median);
  std::putchar('\n');
}

Result<void> measure(Options const& options, char const* device) {
  LEND_TRY(context, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  bool const is_null = std::strcmp(device, "null") == 0;
  std::vector<LoopBack> ends;
  for (std::uint64_t i = 0; i < options.channels; ++i) {
    LEND_TRY(end, loop_back(domain, options.keep_alive));
    ends.push_back(std::move(end));
  }
  if (is_null) make_null(*context.native());
  for (Row const& row : is_null ? rows_alone() : rows_looped()) {
    if (options.once != 0) {
      for (Way const way : row.ways)
        if (!lend_bench_run(way, ends.data(), ends.size(), options.once))
          return Errc::system_failed;
      continue;
    }
    auto const medians = time_row(row, ends);
    if (medians[0] == 0) return Errc::system_failed;
    show(options, device, row, medians);
  }
  return success();
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
    std::fputs("price [--json] [--keep-alive] [--channels N] [--once MULTIPLE_OF_16]\n", stderr);
    return 2;
  }
  if (!options.json && options.once == 0) {
    std::printf("ns per operation, post and completion, median of %zu runs, %llu channels\n", runs,
                static_cast<unsigned long long>(options.channels));
    std::printf("%-6s %-16s", "device", "operation");
    for (auto const name : way_names) std::printf(" %9s", name.data());
    std::putchar('\n');
  }
  for (char const* const device : {"null", "soft"})
    if (auto const done = measure(options, device); !done) {
      std::fprintf(stderr, "price: %s: %s\n", device, done.error().message().c_str());
      return 1;
    }
  return 0;
}
