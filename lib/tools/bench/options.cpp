// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line of `lend bench`.
#include <base/printable.hpp>
#include <tools/bench/options.hpp>
#include <tools/command_line.hpp>
#include <tools/loops/end.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace lend::tools {

namespace {

constexpr auto bench_words = std::to_array<std::string_view>(
    {"lat", "bw", "send", "write", "read", "--listen", "--via", "--bytes", "--count", "--device",
     "--secret", "--histogram", "--svg", "--hgrm", "--json"});

Error wrong(std::string text) {
  return {Errc::invalid_argument, std::move(text)};
}

Result<std::uint64_t> number_in(std::string_view text, std::string_view what, std::uint64_t most) {
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > most)
    return wrong(std::string{what} + " takes numbers from 1 to " + std::to_string(most) +
                 ", and no " + base::shown(text));
  return value;
}

Result<std::vector<std::size_t>> sizes_in(std::string_view list) {
  std::vector<std::size_t> sizes;
  for (;;) {
    auto const comma = std::min(list.find(','), list.size());
    LEND_TRY(size, number_in(list.substr(0, comma), "--bytes", message_bytes_max));
    sizes.push_back(size);
    if (comma == list.size()) return sizes;
    list.remove_prefix(comma + 1);
  }
}

/// Takes words one by one.
struct Parser {
  std::span<char* const> rest;
  BenchOptions options{};
  bool names_operations = false, names_measures = false;
  std::string_view of_near{};  // the last word that only the end that measures takes

  Result<std::string_view> value_of(std::string_view option) {
    if (rest.empty()) return wrong(std::string{option} + " lacks its value");
    std::string_view const value = rest.front();
    rest = rest.subspan(1);
    return value;
  }

  Result<void> take_file(std::string_view option, std::string_view& file) {
    LEND_TRY(value, value_of(option));
    if (value.empty()) return wrong(std::string{option} + " lacks its value");
    file = value;
    return success();
  }

  void take_measure(std::string_view word) {
    if (!std::exchange(names_measures, true)) options.latency = options.bandwidth = false;
    (word == "lat" ? options.latency : options.bandwidth) = true;
  }

  void take_operation(std::string_view word) {
    if (!std::exchange(names_operations, true)) options.operations.clear();
    if (std::ranges::find(options.operations, word) == options.operations.end())
      options.operations.push_back(word);
  }

  Result<void> check_first_address(std::string_view word) const {
    if (options.role == BenchOptions::Role::both) return success();
    return wrong("bench takes one address, and no second " + base::shown(word));
  }

  Result<void> take_address(std::string_view word) {
    LEND_TRYV(check_first_address(word));
    options.role = BenchOptions::Role::near;
    options.address = word;
    return success();
  }

  Result<void> take_listen() {
    LEND_TRYV(check_first_address("--listen"));
    options.role = BenchOptions::Role::far;
    options.address = listen_address;
    if (rest.empty() || !is_address(rest.front())) return success();
    options.address = rest.front();
    rest = rest.subspan(1);
    return success();
  }

  Result<void> take_via() {
    LEND_TRY(value, value_of("--via"));
    if (std::ranges::find(bench_ways, value) == bench_ways.end())
      return unknown_word("--via takes no", value, bench_ways);
    options.via = value;
    return success();
  }

  Result<void> take(std::string_view word) {
    if (is_address(word)) return take_address(word);
    if (word == "--listen") return take_listen();
    if (word == "--device") return take_file(word, options.device);
    if (word == "--secret") return take_file(word, options.secret_in);
    of_near = word;
    if (word == "lat" || word == "bw") return take_measure(word), success();
    if (std::ranges::find(bench_operations, word) != bench_operations.end())
      return take_operation(word), success();
    if (word == "--histogram") return options.histogram = true, success();
    if (word == "--json") return options.json = true, success();
    if (word == "--via") return take_via();
    if (word == "--svg") return take_file(word, options.svg);
    if (word == "--hgrm") return take_file(word, options.hgrm);
    if (word == "--bytes") {
      LEND_TRY(list, value_of(word));
      LEND_TRY(sizes, sizes_in(list));
      options.sizes = std::move(sizes);
      return success();
    }
    if (word == "--count") {
      LEND_TRY(text, value_of(word));
      LEND_TRY(count, number_in(text, "--count", bench_count_max));
      options.count = count;
      return success();
    }
    if (word.starts_with('-')) return unknown_word("bench has no option", word, bench_words);
    return unknown_word("bench takes an address HOST:PORT, and no", word, bench_words);
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

Result<BenchOptions> parse_bench(std::span<char* const> words) {
  Parser parser{words};
  while (!parser.rest.empty()) {
    std::string_view const word = parser.rest.front();
    parser.rest = parser.rest.subspan(1);
    LEND_TRYV(parser.take(word));
  }
  LEND_TRYV(check_role(parser.options, parser.of_near));
  LEND_TRYV(apply_way(parser.options, parser.names_measures));
  LEND_TRYV(check_together(parser.options));
  return std::move(parser.options);
}

}  // namespace lend::tools
