// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `lend top` tells what processes did between two looks. Method: values of both looks.
#include <tools/top_table.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace lend;

namespace {

/// The words of the lines of one process.
std::vector<std::string> rows_of(observe::Tallies const& before, observe::Tallies const& now) {
  auto const look = [](observe::Tallies const& tallies) {
    observe::ProcessCounts process{.process = 7, .program = "server", .is_running = true};
    process.counts.tallies = tallies;
    return tools::Looked{{"file", process}};
  };
  std::istringstream lines{tools::top_table(look(before), look(now), 2, command::Look{})};
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 80);
    std::istringstream words{line};
    std::string id, program, row;
    if (!(words >> id >> program) || id != "7") continue;
    for (std::string word; words >> word;) row += (row.empty() ? "" : " ") + word;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("top has the mean time of the calls that ended between two looks", "[observe]") {
  observe::Tallies before, now;
  before.calls[0] = {.succeeded = 10, .failed = 1, .nanoseconds = 900'000};
  now.calls[0] = {.succeeded = 12, .failed = 3, .nanoseconds = 920'000};
  now.calls[7] = {.succeeded = 2, .nanoseconds = 60'000};
  CHECK(rows_of(before, now) == std::vector<std::string>{"calls 0 0 2 1 0.0 20.00 -"});
  CHECK(rows_of(now, now) == std::vector<std::string>{"calls 0 0 0 0 0.0 - -"});
  auto const mean = [](std::uint64_t milliseconds) {
    observe::Tallies calls;
    calls.calls[0] = {.succeeded = 1, .nanoseconds = milliseconds * 1'000'000};
    return rows_of({}, calls).at(0);
  };
  CHECK(mean(9) == "calls 0 0 0 0 0.0 9000.00 -");
  CHECK(mean(9'000) == "calls 0 0 0 0 0.0 9000000 -");
  CHECK(mean(90'000'000) == "calls 0 0 0 0 0.0 90000s -");
}

TEST_CASE("top has what each part of the pools has, and how often it lacked", "[observe]") {
  observe::Tallies before, now;
  before.pools[0] = {.used = 3, .free = 5};
  before.pools[3] = {.used = 1, .free = 255, .lacking = 2};
  now.pools[1] = {.used = 812, .free = 212};
  now.pools[3] = {.used = 250, .free = 6, .lacking = 12};
  CHECK(rows_of(before, now) == std::vector<std::string>{"transports 812 212 0", "drafts 250 6 5"});
}
