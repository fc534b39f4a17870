// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a scope that nobody bounds ends all the same, when it is left without finish() or by an
// error. Method: the bound of 30 s shortened; without it these tests would not end.
#include <channel/state/channel_state.hpp>

#include <optional>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// So that a test ends.
void shorten_drains_of(Channel& channel) {
  CHECK(channel::ChannelState::of(channel).drain_longest == PollingScope::drain_max);
  channel::ChannelState::of(channel).drain_longest = 20ms;
}

}  // namespace

TEST_CASE("a scope left without finish() while its peer is silent ends at drain_max", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  shorten_drains_of(ends.a);
  {
    PollingScope scope{ends.a};
    SECTION("not bounded") {}
    SECTION("bounded by more") {
      scope.drain_within(1h);
    }
    SECTION("bounded by who does not cancel") {
      static Cancellation const never_used;
      scope.drain_until(Deadline::never().unless(never_used));
    }
    static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
  }
  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(*ends.a.first_cause() == Errc::timed_out);
  CHECK(ends.a.last_failures().size() == 1);
}

TEST_CASE("a closure that ends in an error while its peer is silent ends at drain_max",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  shorten_drains_of(ends.a);
  std::optional<std::chrono::nanoseconds> bound;
  SECTION("not bounded") {}
  SECTION("bounded by more") {
    bound = 1h;
  }
  auto const error = error_of(ends.a.scope([&](PollingScope& scope) -> Result<void> {
    if (bound) scope.drain_within(*bound);
    LEND_TRYV(scope.post_receive(memory.scatter(0, 8)));
    return Error{Errc::not_found, "the closure's own reason"};
  }));
  CHECK(error == Errc::not_found);
  CHECK(error.drained().size() == 1);
  CHECK(memory.loans() == 0);
  CHECK(*ends.a.first_cause() == Errc::timed_out);
}

TEST_CASE("a batch that finds no room at its end ends its handles for good", "[channel]") {
  auto ends = two_ends(options_with_depth(2));
  auto memory = must(ends.domain.allocate(64));
  shorten_drains_of(ends.a);
  PollingScope scope{ends.a};
  scope.drain_within(0s);
  for (std::size_t at = 0; at < 16; at += 8)
    static_cast<void>(must(scope.post_receive(memory.scatter(at, 8))));
  std::optional<PendingWork> kept;
  {
    auto batch = scope.batch();
    kept = must(batch.add_receive(memory.scatter(16, 8)));
  }

  CHECK(memory.loans() == 2);
  CHECK(ends.a.first_cause() == nullptr);
  auto const error = error_of(kept->wait(within(5s)));
  CHECK(error == Errc::queue_full);  // as timed_out it would ask for another wait
  CHECK_THAT(error.message(), Catch::Contains("there was no room"));
}

TEST_CASE("an exception does not wait for a peer that takes no message", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(ends.domain.allocate(64));
  auto const drain_longest = channel::ChannelState::of(ends.a).drain_longest;
  CHECK(drain_longest == 30s);
  auto const before = std::chrono::steady_clock::now();
  try {
    PollingScope scope{ends.a};
    static_cast<void>(must(scope.post_send(memory.gather(0, 8))));
    throw 1;
  } catch (int) {
  }
  CHECK(std::chrono::steady_clock::now() - before < drain_longest);
  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK_THAT(ends.a.first_cause()->message(),
             Catch::Contains("an exception left a scope while work was outstanding"));
  CHECK(ends.a.last_failures().size() == 1);
}
