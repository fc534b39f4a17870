// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the texts of metrics_text(), by a grammar of our own.
#pragma once

#include <lend/observe/metrics.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace lend::test {

/// Samples by their name with labels.
using Samples = std::map<std::string, double>;

/// The value of `name{label="value",…} number` or `name number`; none if the line is not so.
inline std::optional<double> value_of_sample(std::string_view line) {
  auto const take = [&line](std::string_view word) {
    bool const is_next = line.starts_with(word);
    if (is_next) line.remove_prefix(word.size());
    return is_next;
  };
  auto const take_name = [&line] {
    auto const end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
    line.remove_prefix(std::min(end, line.size()));
    return end != 0;
  };
  if (!take_name()) return std::nullopt;
  char const* ending = " ";
  if (take("{")) {
    ending = "} ";
    do {
      if (!take_name() || !take("=\"")) return std::nullopt;
      while (!line.empty() && line.front() != '"') line.remove_prefix(line.front() == '\\' ? 2 : 1);
    } while (take("\"") && take(","));
  }
  double value = 0;
  if (!take(ending)) return std::nullopt;
  auto const [end, error] = std::from_chars(line.begin(), line.end(), value);
  return error == std::errc{} && end == line.end() ? std::optional{value} : std::nullopt;
}

/// What one text has wrong; empty: nothing. Its samples are added to `samples`.
inline std::string wrong_with(std::string const& text, MetricsFormat format, Samples& samples) {
  bool const is_open = format == MetricsFormat::openmetrics;
  if (text.empty() || text.back() != '\n') return "the last line has no end";
  if (is_open && !text.ends_with("# EOF\n")) return "no # EOF at the end";
  std::istringstream lines{is_open ? text.substr(0, text.size() - 6) : text};
  std::string family;
  std::string kind;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) {
      std::istringstream words{line};
      std::string sign, about, name, what;
      if (!(words >> sign >> about >> name >> what) || sign != "#") return "no comment: " + line;
      if (about == "TYPE") family = name, kind = what;
      if (name != family) return "a family inside another: " + line;
      if (kind == "counter" && family.ends_with("_total") == is_open) return "_total in " + line;
      bool const is_unit = is_open && about == "UNIT" && family.ends_with('_' + what);
      if (about != "TYPE" && about != "HELP" && !is_unit) return "no comment: " + line;
      continue;
    }
    auto const value = value_of_sample(line);
    if (!value) return "no sample: " + line;
    auto const name = line.substr(0, line.find_first_of("{ "));
    if (family.empty() || !name.starts_with(family)) return "of another family: " + line;
    auto const rest = name.substr(family.size());
    bool const fits = kind == "counter" ? rest == (is_open ? "_total" : "")
                      : kind == "histogram"
                          ? rest == "_bucket" || rest == "_sum" || rest == "_count"
                          : rest.empty();
    if (!fits) return "the name of a " + kind + ": " + line;
    if (!samples.emplace(line.substr(0, line.rfind(' ')), *value).second) return "twice: " + line;
  }
  return {};
}

/// The sum of the samples of that name whose labels have all of these.
inline double sum_of(Samples const& samples, std::string const& name,
                     std::vector<std::string> labels) {
  double sum = 0;
  for (auto const& [key, value] : samples) {
    if (key != name && !key.starts_with(name + '{')) continue;
    bool has_all = true;
    for (auto const& each : labels) has_all &= key.find(each) != key.npos;
    if (has_all) sum += value;
  }
  return sum;
}

inline Samples samples_now(MetricsFormat format = MetricsFormat::openmetrics) {
  Samples samples;
  CHECK(wrong_with(metrics_text(format), format, samples) == "");
  return samples;
}

}  // namespace lend::test
