// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: how long waits spin follows from how long their yields take. Method: yields of given
// lengths; no clock.
#include "support/catch.hpp"

#include <channel/waiter.hpp>

using namespace lend;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t many = 250;
constexpr std::uint32_t few = 4;

channel::WaitPlan spinning() {
  return {.how = Wait::adaptive, .spins = many, .sleep_max = 100ms};
}

}  // namespace

TEST_CASE("waits spin little once a yield let another thread run", "[channel]") {
  auto plan = spinning();
  CHECK_FALSE(plan.note_yield(1us));
  CHECK(plan.spins == many);
  CHECK_FALSE(plan.note_yield(3us));
  CHECK(plan.spins == few);
}

TEST_CASE("waits spin again after 64 quick yields in a row", "[channel]") {
  auto plan = spinning();
  static_cast<void>(plan.note_yield(3us));
  for (int yields = 1; yields < 64; ++yields) CHECK_FALSE(plan.note_yield(700ns));
  static_cast<void>(plan.note_yield(3us));
  for (int yields = 1; yields < 64; ++yields) CHECK_FALSE(plan.note_yield(700ns));
  CHECK(plan.spins == few);
  CHECK(plan.note_yield(700ns));
  CHECK(plan.spins == many);
}

TEST_CASE("a thread that is bound to one CPU spins once it has it to itself", "[channel]") {
  channel::WaitPlan plan{.how = Wait::adaptive, .spins = 0, .sleep_max = 100ms};
  static_cast<void>(plan.note_yield(3us));
  CHECK(plan.spins == 0);
  for (int yields = 0; yields < 64; ++yields) static_cast<void>(plan.note_yield(700ns));
  CHECK(plan.spins == many);
}
