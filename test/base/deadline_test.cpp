// SPDX-License-Identifier: MIT OR Apache-2.0
// Deadlines: far, near, past and never, without overflow. Nothing here waits.
#include "support/catch.hpp"

#include <lend/base/deadline.hpp>

#include <type_traits>

namespace lend {
namespace {

using namespace std::chrono_literals;
using Clock = Deadline::Clock;

static_assert(Deadline::never().is_never());
static_assert(!std::is_convertible_v<Clock::time_point, Deadline>);
static_assert(!std::is_default_constructible_v<Deadline>);
static_assert(sooner(Deadline::never(), until(Clock::time_point{5s})).at() ==
              Clock::time_point{5s});
static_assert(sooner(until(Clock::time_point{5s}), until(Clock::time_point{4s})).at() ==
              Clock::time_point{4s});

TEST_CASE("never has not passed and has all time left", "[base]") {
  CHECK(!Deadline::never().has_passed());
  CHECK(Deadline::never().left() == Clock::duration::max());
}

TEST_CASE("within zero or less has passed", "[base]") {
  for (auto const duration : {0s, -1s, -1000000s}) {
    CHECK(within(duration).has_passed());
    CHECK(within(duration).left() == Clock::duration::zero());
  }
}

TEST_CASE("within an hour has not passed and has no more than an hour left", "[base]") {
  auto const deadline = within(1h);
  CHECK(!deadline.has_passed());
  CHECK(!deadline.is_never());
  CHECK(deadline.left() <= 1h);
  CHECK(deadline.left() > 0s);
}

TEST_CASE("a duration too long for the clock means never", "[base]") {
  CHECK(within(Clock::duration::max()).is_never());
  CHECK(within(std::chrono::hours::max()).is_never());
  CHECK(within(std::chrono::duration<double>(1e300)).is_never());
  CHECK(!within(std::chrono::hours{24 * 365 * 100}).is_never());
}

TEST_CASE("a duration too far in the past has passed", "[base]") {
  CHECK(within(Clock::duration::min()).has_passed());
  CHECK(within(std::chrono::hours::min()).has_passed());
  CHECK(within(std::chrono::duration<double>(-1e300)).has_passed());
}

TEST_CASE("a fraction of a tick rounds up, never to nothing", "[base]") {
  auto const before = Clock::now();
  auto const deadline = within(std::chrono::duration<double, std::nano>(0.5));
  CHECK(deadline.at() > before);
}

TEST_CASE("until is that moment", "[base]") {
  auto const moment = Clock::now() + 1h;
  CHECK(until(moment).at() == moment);
  CHECK(until(Clock::time_point{}).has_passed());
}

TEST_CASE("what is cancelled has passed, however much time is left", "[base]") {
  for (auto const deadline : {Deadline::never(), within(1h)}) {
    Cancellation stopping;
    auto const cancellable = deadline.unless(stopping);
    CHECK(!cancellable.is_never());
    CHECK(!cancellable.has_passed());
    CHECK(cancellable.left() > 59min);
    CHECK(cancellable.until_next_look() == Deadline::look_interval);

    stopping.cancel();
    CHECK(cancellable.is_cancelled());
    CHECK(cancellable.has_passed());
    CHECK(cancellable.left() == Clock::duration::zero());
    CHECK(cancellable.until_next_look() == Clock::duration::zero());
    CHECK(cancellable.at() == deadline.at());
    CHECK(!deadline.has_passed());
  }
}

TEST_CASE("time passes beside a cancellation that nobody uses", "[base]") {
  Cancellation const unused;
  CHECK(within(0s).unless(unused).has_passed());
  CHECK(!within(0s).unless(unused).is_cancelled());
  CHECK(Deadline::never().until_next_look() == Clock::duration::max());
}

TEST_CASE("the sooner of two deadlines can be cancelled if either can", "[base]") {
  Cancellation stopping;
  auto const late = within(2h).unless(stopping);
  auto const soon = within(1h);
  for (auto const both : {sooner(late, soon), sooner(soon, late)}) {
    CHECK(both.at() == soon.at());
    CHECK(!both.is_never());
  }
  stopping.cancel();
  CHECK(sooner(late, soon).is_cancelled());
  CHECK(sooner(soon, late).is_cancelled());
  CHECK(!soon.is_cancelled());
}

}  // namespace
}  // namespace lend
