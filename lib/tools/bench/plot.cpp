// SPDX-License-Identifier: MIT OR Apache-2.0
// The results of a bench as a picture: charts of latencies, of how those of the smallest messages
// are distributed, and of bandwidths.
#include <tools/bench/results.hpp>
#include <tools/format.hpp>
#include <verbs/device/built_with.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

namespace lend::tools {

namespace {

constexpr double picture_width = 760, chart_height = 380, title_height = 60;
constexpr double margin_left = 70, margin_right = 150, margin_top = 34, margin_bottom = 52;

/// A figure of rows: what is drawn, and how its lines look.
struct Figure {
  std::string_view name{};
  std::string_view dashes{};
  std::function<std::optional<double>(BenchRow const&)> value{};  ///< none: too few rounds
};

/// A logarithmic axis of a chart.
struct Axis {
  double least, most;
  double begin, end;  // in the picture

  [[nodiscard]] double at(double value) const {
    if (most <= least) return (begin + end) / 2;
    return begin + (end - begin) * std::log(value / least) / std::log(most / least);
  }
};

std::string text_at(double x, double y, std::string_view anchor, std::string const& text) {
  return formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor.data()) + text +
         "</text>\n";
}

/// Markup of what a user may have written.
std::string escaped(std::string_view text) {
  std::string all;
  for (char const c : text)
    all += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
                      : std::string(1, c < ' ' ? '?' : c);
  return all;
}

/// 1, 2 and 5 of each decade, so that the whole range lies between the first and the last.
std::vector<double> ticks_of(double least, double most) {
  std::vector<double> ticks;
  for (double decade = std::pow(10, std::floor(std::log10(least)));; decade *= 10)
    for (double const step : {1.0, 2.0, 5.0}) {
      auto const tick = step * decade;
      if (tick <= least) ticks.clear();
      ticks.push_back(tick);
      if (tick >= most && ticks.size() > 1) return ticks;
    }
}

std::string line_across(Axis const& x, double at, double value) {
  return formatted("<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>\n", x.begin, at, x.end) +
         text_at(x.begin - 8, at + 4, "end", formatted("%g", value));
}

std::string mark_below(Axis const& y, double at) {
  return formatted("<path d=\"M%.1f %.1fv5\" stroke=\"#555\"/>\n", at, y.begin);
}

std::string frame_of(Axis const& x, Axis const& y, std::string_view x_name,
                     std::string_view y_name) {
  return formatted("<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#555\"/>\n", x.begin,
                   y.end, y.begin, x.end) +
         text_at((x.begin + x.end) / 2, y.begin + 40, "middle", std::string{x_name}) +
         text_at(x.begin - 50, y.end - 14, "start", std::string{y_name});
}

std::string axes_of(Axis const& x, Axis const& y, std::vector<std::size_t> const& sizes,
                    std::string_view unit) {
  std::string svg;
  for (auto const tick : ticks_of(y.least, y.most)) svg += line_across(x, y.at(tick), tick);
  double last_label = 0;
  for (auto const size : sizes) {
    auto const at = x.at(static_cast<double>(size));
    svg += mark_below(y, at);
    if (last_label != 0 && at - last_label < 48) continue;
    last_label = at;
    svg += text_at(at, y.begin + 20, "middle", name_of_bytes(size));
  }
  return svg + frame_of(x, y, "bytes of a message", unit);
}

using Points = std::vector<std::pair<double, double>>;

/// A line of the picture, and at `key` below it in the margin its name.
std::string line_of(Points const& points, std::string_view dashes, std::size_t colour, double key,
                    std::string const& name, std::string const& marks) {
  constexpr auto colours =
      std::to_array<std::string_view>({"#0072b2", "#d55e00", "#009e73", "#cc79a7"});
  auto const* const tone = colours[colour % colours.size()].data();
  constexpr double x = picture_width - margin_right;
  auto svg =
      formatted("<g fill=\"%s\" stroke=\"%s\" stroke-dasharray=\"%s\">\n<path fill=\"none\" d=\"",
                tone, tone, dashes.data());
  for (auto const& [at, value] : points)
    svg += formatted("%c%.1f %.1f", &value == &points.front().second ? 'M' : 'L', at, value);
  svg += formatted("M%.1f %.1fh24\"/>\n", x + 16, key);
  return svg + marks + "</g>\n" + text_at(x + 46, key + 4, "start", name);
}

std::string chart_of(std::span<BenchRow const> rows, bool of_latency, double y_top,
                     std::vector<Figure> const& figures, std::string_view unit) {
  std::vector<std::size_t> sizes;
  std::vector<std::string_view> operations;
  double least = 0, most = 0;
  for (auto const& row : rows) {
    if (row.is_latency != of_latency) continue;
    sizes.push_back(row.load.bytes);
    if (std::ranges::find(operations, row.load.operation) == operations.end())
      operations.push_back(row.load.operation);
    for (auto const& figure : figures) {
      if (!figure.value(row)) continue;
      auto const value = std::max(*figure.value(row), 1e-6);  // which has a logarithm
      least = least == 0 ? value : std::min(least, value);
      most = std::max(most, value);
    }
  }
  if (most == 0) return {};  // no row has a figure
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  auto const ticks = ticks_of(least, most);
  Axis const x{static_cast<double>(sizes.front()), static_cast<double>(sizes.back()), margin_left,
               picture_width - margin_right};
  Axis const y{ticks.front(), ticks.back(), y_top + chart_height - margin_bottom,
               y_top + margin_top};
  auto svg = axes_of(x, y, sizes, unit);
  double key = y.end + 8;
  for (std::size_t i = 0; i < operations.size(); ++i)
    for (auto const& figure : figures) {
      Points points;
      for (auto const& row : rows)
        if (row.is_latency == of_latency && row.load.operation == operations[i])
          if (auto const value = figure.value(row))
            points.emplace_back(x.at(static_cast<double>(row.load.bytes)), y.at(*value));
      if (points.empty()) continue;
      std::ranges::sort(points);
      std::string marks;
      for (auto const& [at, value] : points)
        marks += formatted("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n", at, value);
      svg += line_of(points, figure.dashes, i, key,
                     std::string{operations[i]} + ' ' + std::string{figure.name}, marks);
      key += 18;
    }
  return svg;
}

/// The latencies that are drawn as a distribution: of the smallest messages, with enough rounds.
std::vector<BenchRow const*> distributed(std::span<BenchRow const> rows) {
  std::vector<BenchRow const*> some;
  for (auto const& row : rows)
    if (row.is_latency && row.is_sure(50)) some.push_back(&row);
  auto const bytes = [](BenchRow const* row) { return row->load.bytes; };
  if (some.empty()) return some;
  auto const least = bytes(*std::ranges::min_element(some, {}, bytes));
  std::erase_if(some, [&](BenchRow const* row) { return bytes(row) != least; });
  return some;
}

/// The share of rounds that took no longer, up to the largest one that the rounds are enough for.
std::string distribution_of(std::vector<BenchRow const*> const& rows, double y_top) {
  auto const end_of = [](BenchRow const& row) {
    return row.is_sure(99.9) ? 99.9 : row.is_sure(99) ? 99 : 50;
  };
  auto const latency = [](BenchRow const& row, double percent) {
    return std::max(row.percentile(percent) / 1e3, 1e-6);  // which has a logarithm
  };
  auto least = latency(*rows.front(), 0), most = least;
  for (auto const* row : rows) {
    least = std::min(least, latency(*row, 0));
    most = std::max(most, latency(*row, end_of(*row)));
  }
  auto const ticks = ticks_of(least, most);
  Axis const x{ticks.front(), ticks.back(), margin_left, picture_width - margin_right};
  Axis const y{0, 100, y_top + chart_height - margin_bottom, y_top + margin_top};
  auto const height_of = [&](double percent) {
    return y.begin + (y.end - y.begin) * percent / y.most;
  };
  std::string svg;
  for (double const percent : {0, 25, 50, 75, 100})
    svg += line_across(x, height_of(percent), percent);
  double last_label = 0;
  for (auto const tick : ticks) {
    auto const at = x.at(tick);
    svg += mark_below(y, at);
    if (last_label != 0 && at - last_label < 36) continue;
    last_label = at;
    svg += text_at(at, y.begin + 20, "middle", formatted("%g", tick));
  }
  svg += frame_of(x, y, "latency, us", "% of the rounds of " + name_of_bytes(rows[0]->load.bytes));
  double key = y.end + 8;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    constexpr std::size_t steps = 200;
    Points points;
    for (std::size_t step = 0; step <= steps; ++step) {
      auto const percent = end_of(*rows[i]) * static_cast<double>(step) / steps;
      points.emplace_back(x.at(latency(*rows[i], percent)), height_of(percent));
    }
    svg += line_of(points, "", i, key, std::string{rows[i]->load.operation}, {});
    key += 18;
  }
  return svg;
}

}  // namespace

std::string svg_of(BenchRun const& run, std::span<BenchRow const> rows) {
  bool const has_latency = std::ranges::any_of(rows, &BenchRow::is_latency);
  bool const has_bandwidth = !std::ranges::all_of(rows, &BenchRow::is_latency);
  auto const smallest = distributed(rows);
  auto const height =
      title_height + chart_height * (has_latency + !smallest.empty() + has_bandwidth);
  auto svg = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      picture_width, height);
  svg += "<text x=\"20\" y=\"24\" font-size=\"15\">lend " LEND_VERSION " bench: " +
         escaped(run.device) + " (" + escaped(run.kind) + ")</text>\n";
  svg += text_at(20, 44, "start",
                 escaped(run.host + (run.peer.empty() ? "" : " to " + run.peer) + ", " + run.when +
                         ", " + run.options));
  auto const at = [](double percent) {
    return [percent](BenchRow const& row) {
      return row.is_sure(percent) ? std::optional{row.percentile(percent) / 1e3} : std::nullopt;
    };
  };
  auto const rate = [](BenchRow const& row) {
    return std::optional{row.messages_per_second() * static_cast<double>(row.load.bytes) / 1e9};
  };
  svg += chart_of(rows, true, title_height, {{"p50", "", at(50)}, {"p99", "5 3", at(99)}},
                  "latency, us");
  if (!smallest.empty()) svg += distribution_of(smallest, title_height + chart_height);
  svg += chart_of(rows, false, height - chart_height, {{"", "", rate}}, "bandwidth, GB/s");
  return svg += "</svg>\n";
}

}  // namespace lend::tools
