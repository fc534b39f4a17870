// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a sender writes next never lies where a message lies that is not done, and room is
// found once all are. Method: seeded random messages, which are done in order.
#include <transport/staging.hpp>

#include <cstdint>
#include <deque>
#include <random>

#include "support/catch.hpp"
#include "support/seed.hpp"

using namespace lend::test;
using lend::transport::Staging;

TEST_CASE("a message lies where none lies that is not done, and with all done there is room",
          "[transport]") {
  auto const cells = GENERATE(4u, 8u, 60u, 1'024u);
  for (auto const seed : seeds(3)) {
    INFO("LEND_TEST_SEED=" << seed);
    CAPTURE(cells);
    std::mt19937 random{static_cast<std::uint32_t>(seed)};
    auto const up_to = [&random](std::uint32_t most) {
      return std::uniform_int_distribution<std::uint32_t>{1, most}(random);
    };
    Staging staging{cells};
    struct Place {
      std::uint32_t at, cells;
    };
    std::deque<Place> lying;
    std::uint64_t sent = 0, done = 0;
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 2 == 0 && !lying.empty()) {
        lying.pop_front();
        ++done;
        continue;
      }
      auto const most = up_to(cells / 4), least = up_to(most);
      auto const room = staging.find_room(least, most, sent, done);
      REQUIRE((room || !lying.empty()));
      if (!room) continue;
      REQUIRE(*room >= (lying.empty() ? most : least));
      REQUIRE(*room <= most);
      REQUIRE(staging.has_room(*room));
      auto const at = staging.at();
      REQUIRE(at + *room <= cells);
      for (auto const& other : lying)
        REQUIRE((at >= other.at + other.cells || other.at >= at + *room));
      if (random() % 8 == 0) continue;  // a draft that is dropped
      auto const used = up_to(*room);
      staging.take(used);
      ++sent;
      lying.push_back({at, used});
    }
    CHECK(sent > 1'000);
  }
}
