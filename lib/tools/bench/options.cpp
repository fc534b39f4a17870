// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line of `lend bench`.
#include <base/printable.hpp>
#include <tools/bench/options.hpp>
#include <tools/loops/end.hpp>
#include <tools/loops/tcp.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace lend::tools {

namespace {

Error wrong(std::string text) {
  return {Errc::invalid_argument, std::move(text)};
}

Result<std::vector<std::size_t>> sizes_in(std::string_view list) {
  std::vector<std::size_t> sizes;
  for (;;) {
    auto const comma = std::min(list.find(','), list.size());
    auto const word = list.substr(0, comma);
    auto const size = command::size_in(word);
    if (!size || *size == 0 || *size > message_bytes_max)
      return wrong("--bytes takes sizes from 1 to 1G such as 8,64K, not " + base::shown(word));
    sizes.push_back(*size);
    if (comma == list.size()) return sizes;
    list.remove_prefix(comma + 1);
  }
}

Result<std::uint64_t> count_in(std::string_view text) {
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 ||
      value > bench_count_max)
    return wrong("--count takes a number from 1 to " + std::to_string(bench_count_max) + ", not " +
                 base::shown(text));
  return value;
}

/// Takes words one by one.
struct Taker {
  BenchOptions& options;
  std::string& of_near;
  bool names_operations = false, names_measures = false;

  void take_measure(std::string_view word) {
    if (!std::exchange(names_measures, true)) options.latency = options.bandwidth = false;
    (word == "lat" ? options.latency : options.bandwidth) = true;
  }

  void take_operation(std::string_view word) {
    if (!std::exchange(names_operations, true)) options.operations.clear();
    if (std::ranges::find(options.operations, word) == options.operations.end())
      options.operations.push_back(word);
  }

  Result<void> take_address(std::string const& word, BenchOptions::Role role) {
    if (options.role != BenchOptions::Role::both)
      return wrong("bench takes one address, and no second " + base::shown(word));
    options.role = role;
    options.address = word;
    return success();
  }

  Result<void> take(std::string const& word) {
    if (is_address(word)) return take_address(word, BenchOptions::Role::near);
    of_near = word;
    if (word == "lat" || word == "bw") return take_measure(word), success();
    auto const* const operation = std::ranges::find(bench_operations, word);
    if (operation != bench_operations.end()) return take_operation(*operation), success();
    constexpr auto known = std::to_array<std::string_view>({"lat", "bw", "send", "write", "read"});
    return command::unknown_word("bench takes an address HOST:PORT, not", word, known);
  }
};

/// Leaves out what a way to post has not.
Result<void> apply_way(BenchOptions& options, bool names_measures) {
  if (options.via == "blocking" && std::exchange(options.bandwidth, false) && names_measures)
    return wrong("--via blocking has one operation under way and no bandwidth; leave bw out");
  if (options.via == "batch" && std::exchange(options.latency, false) && names_measures)
    return wrong("--via batch posts many operations and has no latency; leave lat out");
  return success();
}

Result<void> check_role(BenchOptions const& options, std::string_view of_near) {
  if (options.role == BenchOptions::Role::far && !of_near.empty())
    return wrong("the end that measures takes " + base::shown(of_near) + "; leave out --listen");
  if (options.role == BenchOptions::Role::both && !options.secret_in.empty())
    return wrong("--secret is for a peer: name its address, or --listen");
  return success();
}

Result<void> check_together(BenchOptions const& options) {
  bool const is_one = options.operations.size() == 1 && options.sizes.size() == 1;
  if (!options.hgrm.empty() && (!options.latency || !is_one))
    return wrong("--hgrm is of one histogram: name lat, one operation and one size by --bytes");
  if (!options.svg.empty() && !options.latency)
    return wrong("--svg draws latencies; name lat, and no --via batch");
  if (options.histogram && !options.latency)
    return wrong("--histogram draws latencies; name lat, and no --via batch");
  if (options.histogram && options.json)
    return wrong("--histogram draws below the table, which --json has not: leave one of them out");
  return success();
}

}  // namespace

bool is_address(std::string_view word) noexcept {
  return !word.starts_with('-') && word.find(':') != word.npos;
}

command::About const about_bench{
    "lend bench [lat] [bw] [send] [write] [read] [OPTION…] [HOST:PORT]\n"
    "lend bench --listen [HOST:PORT]",
    "Measures latency and bandwidth, between two processes of this host or to another host. There, "
    "`lend bench --listen` runs at HOST:PORT. The words choose what to measure; without any, it "
    "measures everything, and within this host also TCP.",
    "Example:\n"
    "  lend bench lat send write --bytes 8,4K\n"
    "\n"
    "Exit status: 0; 1 if it failed; 2 for a wrong command line or a device that is not there."};

void add_bench_options(command::CommandLine& line, BenchWords& words) {
  auto& options = words.options;
  auto const of_near = [&words](std::string const& name, auto take) {
    return [&words, name, take](std::string const& value) -> Result<void> {
      words.of_near = name;
      return take(value);
    };
  };
  auto const keep = [](std::string& place) {
    return [&place](std::string const& value) -> Result<void> {
      if (value.empty()) return wrong("a file's name is empty");
      place = value;
      return success();
    };
  };
  auto const take_sizes = [&options](std::string const& value) -> Result<void> {
    LEND_TRY(sizes, sizes_in(value));
    options.sizes = std::move(sizes);
    return success();
  };
  auto const take_count = [&options](std::string const& value) -> Result<void> {
    LEND_TRY(count, count_in(value));
    options.count = count;
    return success();
  };
  auto const take_way = [&options](std::string const& value) -> Result<void> {
    auto const* const way = std::ranges::find(bench_ways, value);
    if (way == bench_ways.end())
      return command::unknown_word("--via takes scoped, unsafe, blocking or batch, not", value,
                                   bench_ways);
    options.via = *way;
    return success();
  };
  auto const take_memory = [&options](std::string const& value) -> Result<void> {
    if (value != "own" && value != "allocated")
      return wrong("--memory takes own or allocated, not " + base::shown(value));
    options.own_memory = value == "own";
    return success();
  };
  line.optional_value("--listen", "HOST:PORT", words.listen_at, std::string{listen_address},
                      "waits for one other bench, at [::]:7472 by default")
      .value("--bytes", "LIST", of_near("--bytes", take_sizes),
             "message sizes, such as 8,4K,1G; each end needs 4 times the largest in memory")
      .value("--count", "N", of_near("--count", take_count),
             "rounds or messages per row; by default as many as take 0.2 s")
      .value("--via", "WAY", of_near("--via", take_way),
             "how to post: scoped (default), unsafe, blocking (latency only) or batch (bandwidth "
             "only)")
      .value("--memory", "KIND", of_near("--memory", take_memory),
             "allocated (default): by lend; own: by the program, which registers it")
      .path("--device", "NAME", options.device, "the device, named as in LEND_DEVICE")
      .path("--secret", "FILE", options.secret_in,
            "reads the secret from FILE; it is the same at both ends")
      .flag("--histogram", options.histogram, "draws the latencies below the table")
      .value("--svg", "FILE", of_near("--svg", keep(options.svg)),
             "draws latencies and bandwidths in FILE")
      .value("--hgrm", "FILE", of_near("--hgrm", keep(options.hgrm)),
             "writes the latencies of a single row in HdrHistogram's text format")
      .flag("--json", options.json, "prints the results as JSON")
      .words("WORD", words.words, "lat, bw, send, write, read, or the address of the other bench");
}

Result<BenchOptions> bench_options(BenchWords words) {
  auto& options = words.options;
  if (options.json) words.of_near = "--json";
  if (options.histogram) words.of_near = "--histogram";
  Taker taker{options, words.of_near};
  if (is_address(words.listen_at)) {
    LEND_TRYV(taker.take_address(words.listen_at, BenchOptions::Role::far));
  } else if (!words.listen_at.empty()) {
    words.words.push_back(words.listen_at);
    LEND_TRYV(taker.take_address(std::string{listen_address}, BenchOptions::Role::far));
  }
  for (auto const& word : words.words) {
    LEND_TRYV(taker.take(word));
  }
  LEND_TRYV(check_role(options, words.of_near));
  LEND_TRYV(apply_way(options, taker.names_measures));
  options.tcp = options.latency && options.role == BenchOptions::Role::both &&
                options.operations.size() == bench_operations.size() &&
                std::ranges::min(options.sizes) <= tcp_bytes_max;
  LEND_TRYV(check_together(options));
  return std::move(options);
}

}  // namespace lend::tools
