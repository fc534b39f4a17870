// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: how long waits spin follows from how long their yields take, and from who ran meanwhile.
// Method: yields of given lengths, and given answers; of the clock only that it goes on.
#include "support/catch.hpp"

#include <base/yielding.hpp>

using namespace lend;
using namespace std::chrono_literals;
using base::Ran;

namespace {

constexpr std::uint32_t few = 4;
constexpr std::uint32_t many = 250;
constexpr std::uint32_t patient = 20'000;

}  // namespace

TEST_CASE("waits spin little once a yield let another thread run", "[base]") {
  auto const ran = GENERATE(Ran::unknown, Ran::waiter);
  base::SpinRule rule{.spins = many};
  CHECK_FALSE(rule.note(1us, ran));
  CHECK(rule.spins == many);
  CHECK_FALSE(rule.note(3us, ran));
  CHECK(rule.spins == few);
}

TEST_CASE("waits spin again after 64 quick yields in a row", "[base]") {
  auto const ran = GENERATE(Ran::unknown, Ran::waiter, Ran::unrelated);
  base::SpinRule rule{.spins = many};
  static_cast<void>(rule.note(3us, ran));
  for (int yields = 1; yields < 64; ++yields) CHECK_FALSE(rule.note(700ns, ran));
  static_cast<void>(rule.note(3us, ran));
  for (int yields = 1; yields < 64; ++yields) CHECK_FALSE(rule.note(700ns, ran));
  CHECK(rule.spins != many);
  CHECK(rule.note(700ns, ran));
  CHECK(rule.spins == many);
}

TEST_CASE("a thread that is bound to one CPU spins once it has it to itself", "[base]") {
  base::SpinRule rule{};
  static_cast<void>(rule.note(3us, Ran::unknown));
  CHECK(rule.spins == 0);
  for (int yields = 0; yields < 64; ++yields) static_cast<void>(rule.note(700ns, Ran::unknown));
  CHECK(rule.spins == many);
}

TEST_CASE("waits spin long once a yield let an unrelated program run", "[base]") {
  auto const before = GENERATE(0u, many);
  base::SpinRule rule{.spins = before};
  CHECK(rule.note(3ms, Ran::unrelated));
  CHECK(rule.spins == patient);
  CHECK_FALSE(rule.note(3ms, Ran::waiter));
  CHECK(rule.spins == few);
}

TEST_CASE("a long spin ends by its time, and others by their number alone", "[base]") {
  auto const now = std::chrono::steady_clock::now();
  base::SpinRule rule{.spins = patient};
  CHECK_FALSE(rule.has_spun_enough(64));
  CHECK(rule.patient_until > now);
  CHECK(rule.patient_until <= std::chrono::steady_clock::now() + rule.patience);
  rule.patient_until = now;
  CHECK(rule.has_spun_enough(128));
  CHECK_FALSE(rule.has_spun_enough(64));  // a new wait
  rule.spins = GENERATE(UINT32_MAX, many);
  rule.patient_until = now;
  CHECK_FALSE(rule.has_spun_enough(128));
}

TEST_CASE("who has met a waiter believes in no unrelated program for 64 yields", "[base]") {
  base::SpinRule rule{.spins = many};
  static_cast<void>(rule.note(1us, Ran::waiter));
  for (int yields = 1; yields < 64; ++yields) {
    CHECK_FALSE(rule.note(3ms, Ran::unrelated));
    CHECK(rule.spins == few);
  }
  CHECK(rule.note(3ms, Ran::unrelated));
  CHECK(rule.spins == patient);
}
