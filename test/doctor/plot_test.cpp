// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a picture of a bench draws what its rounds can say, and no more. Method: rows as values.
#include <tools/bench/results.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "support/catch.hpp"

using namespace lend;

TEST_CASE("a picture has those percentiles alone that enough rounds make sure", "[tools]") {
  tools::BenchRow row{.is_latency = true, .load = {"send", "scoped", 8, 0}};
  auto const points = [&row](std::size_t rounds) {
    row.rounds.assign(rounds, 10.0);
    auto const svg = tools::svg_of({.device = "soft0"}, {&row, 1});
    std::size_t found = 0;
    for (auto at = svg.find("<circle"); at != svg.npos; at = svg.find("<circle", at + 1)) ++found;
    return found;
  };
  CHECK(points(1000) == 2);
  CHECK(points(100) == 1);  // of which ten are not slower than the 99th percentile
  CHECK(points(5) == 0);
}

TEST_CASE("a picture of a bench has the distribution of the smallest messages' latencies",
          "[tools]") {
  tools::BenchRow small{.is_latency = true, .load = {"send", "scoped", 8, 0}};
  for (int round = 1; round <= 1000; ++round) small.rounds.push_back(1e3 * round);
  tools::BenchRow large{.is_latency = true, .load = {"send", "scoped", 4096, 0}};
  large.rounds.assign(1000, 1e6);
  auto const drawn = [](auto const& rows) { return tools::svg_of({.device = "soft0"}, rows); };
  auto const svg = drawn(std::array{large, small});
  auto const line = svg.find(" d=\"M", svg.find("<g", svg.find(">% of the rounds of 8 B<")));
  REQUIRE(line != svg.npos);
  auto const of_line = svg.substr(line, svg.find("h24", line) - line);
  CHECK(std::ranges::count(of_line, 'L') == 200);
  CHECK(svg.find("of the rounds of 4 KiB") == svg.npos);
  small.rounds.resize(19);  // too few to say what half of them took
  CHECK(drawn(std::array{small}).find("% of the rounds") == std::string::npos);
}
