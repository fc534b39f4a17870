// SPDX-License-Identifier: MIT OR Apache-2.0
// The retry budgets as a table.
#include <soft/engine/retry_budgets.hpp>

#include "support/catch.hpp"

using namespace lend::soft;

TEST_CASE("timers follow the tables of the specification", "[soft]") {
  static_assert(silence_budget(0, 7) == for_ever);
  static_assert(silence_budget(14, 0) == 67'108'864);      // 4.096 us * 2^14
  static_assert(silence_budget(14, 7) == 8 * 67'108'864);  // the first try and seven more
  static_assert(silence_budget(31, 7) == (std::uint64_t{4096} << 31) * 8);
  static_assert(receiver_budget(7, 12) == for_ever);
  static_assert(receiver_budget(0, 12) == 0);
  static_assert(receiver_delay(0) == 655'360'000);
  static_assert(receiver_delay(1) == 10'000);
  static_assert(receiver_delay(12) == 640'000);
  static_assert(receiver_delay(31) == 491'520'000);
  for (unsigned timer = 2; timer < 32; ++timer)
    CHECK(receiver_delay(timer) > receiver_delay(timer - 1));
}
