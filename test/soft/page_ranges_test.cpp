// SPDX-License-Identifier: MIT OR Apache-2.0
// Page bookkeeping against a brute-force model.
#include <soft/memory/page_ranges.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/seed.hpp"

TEST_CASE("ranges taken at random never overlap, and all of them come back", "[soft]") {
  constexpr std::size_t page = 4096;
  constexpr std::size_t pages = 64;
  for (auto const seed : lend::test::seeds(100)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    lend::soft::PageRanges ranges{page, page * (pages + 1)};
    std::vector<bool> taken(pages + 1, false);
    std::map<std::size_t, std::size_t> held;
    for (int step = 0; step < 500; ++step) {
      if (random() % 2 == 0) {
        auto const length = 1 + random() % (8 * page);
        auto const offset = ranges.take(length);
        auto const wanted = lend::soft::whole_pages(length) / page;
        std::size_t longest = 0;
        for (std::size_t i = 1, run = 0; i <= pages; ++i)
          longest = std::max(longest, run = taken[i] ? 0 : run + 1);
        REQUIRE(offset.has_value() == (longest >= wanted));
        if (!offset) continue;
        held.emplace(*offset, length);
        for (std::size_t i = 0; i < wanted; ++i) {
          REQUIRE(*offset / page + i <= pages);
          REQUIRE(!taken[*offset / page + i]);
          taken[*offset / page + i] = true;
        }
      } else if (!held.empty()) {
        auto const chosen = std::next(held.begin(), static_cast<long>(random() % held.size()));
        for (std::size_t i = 0; i < lend::soft::whole_pages(chosen->second) / page; ++i)
          taken[chosen->first / page + i] = false;
        ranges.give_back(chosen->first);
        held.erase(chosen);
      }
    }
    for (auto const& [offset, length] : held) ranges.give_back(offset);
    REQUIRE(ranges.taken() == 0);
    REQUIRE(ranges.take(page * pages) == page);  // one whole gap again
  }
}
