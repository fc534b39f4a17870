// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: another thread ends any wait early, and what is left behind is what a timeout leaves.
// Method: each call that waits, in each way of waiting, under a deadline that is far away; a thread
// cancels meanwhile. Then the same by a deadline that passes, in one table.
#include <type_traits>

#include "support/canceller.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<Cancellation>);
static_assert(std::is_trivially_copyable_v<Deadline> && sizeof(Deadline) == 16);

namespace {

/// Gives `call` a deadline that passes, or is cancelled, after it has begun to wait; what it must
/// answer then.
enum class Ending : std::uint8_t { times_out, is_cancelled, was_cancelled };

template <class Call>
Error ended_error(Ending ending, Call&& call) {
  constexpr auto begun = 15ms;  // the wait has passed from spinning to yielding or to sleeping
  if (ending == Ending::times_out) return error_of(call(within(begun)));
  if (ending == Ending::is_cancelled) return error_of(call(Canceller{begun}.deadline()));
  Cancellation stopped;
  stopped.cancel();
  return error_of(call(within(60s).unless(stopped)));
}

Errc code_of(Ending ending) {
  return ending == Ending::times_out ? Errc::timed_out : Errc::cancelled;
}

TwoEnds ends_waiting_by(Wait how) {
  ChannelOptions options = options_with_depth(2);
  options.wait = how;
  return two_ends(options);
}

}  // namespace

TEST_CASE("a wait that is given up leaves the work outstanding and its bytes on loan",
          "[channel]") {
  auto const ending = GENERATE(Ending::times_out, Ending::is_cancelled, Ending::was_cancelled);
  auto const how = GENERATE(Wait::spin, Wait::adaptive, Wait::event);
  auto ends = ends_waiting_by(how);
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(0, 8)));

  CHECK(ended_error(ending, [&](Deadline d) { return arrival.wait(d); }) == code_of(ending));

  CHECK(memory.loans() == 1);
  CHECK(scope.outstanding() == 1);
  CHECK(ends.b.first_cause() == nullptr);
  must(ends.a.send(memory.gather(32, 8)));
  CHECK(must(arrival.wait(within(10s))).bytes == 8);
  must(scope.finish());
}

TEST_CASE("a post that gives up waiting for room has posted nothing", "[channel]") {
  auto const ending = GENERATE(Ending::times_out, Ending::is_cancelled, Ending::was_cancelled);
  auto const how = GENERATE(Wait::spin, Wait::adaptive, Wait::event);
  auto ends = ends_waiting_by(how);
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  for (std::size_t i = 0; i < 2; ++i)
    static_cast<void>(must(scope.post_receive(memory.scatter(8 * i, 8))));

  auto const post = [&](Deadline d) { return scope.post_receive(memory.scatter(16, 8), d); };
  CHECK(ended_error(ending, post) == code_of(ending));

  CHECK(memory.loans() == 2);
  CHECK(scope.outstanding() == 2);
  CHECK(ends.b.first_cause() == nullptr);
  for (int i = 0; i < 2; ++i) must(ends.a.send(memory.gather(32, 8)));
  must(scope.finish());
}

TEST_CASE("a blocking call that is given up has flushed its work and broken the channel",
          "[channel]") {
  auto const ending = GENERATE(Ending::times_out, Ending::is_cancelled, Ending::was_cancelled);
  auto const how = GENERATE(Wait::adaptive, Wait::event);
  auto ends = ends_waiting_by(how);
  auto memory = must(ends.domain.allocate(64));

  SECTION("receive") {
    auto const call = [&](Deadline d) { return ends.a.receive(memory.scatter(0, 8), d); };
    CHECK(ended_error(ending, call) == code_of(ending));
  }
  SECTION("send") {
    if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
    auto const call = [&](Deadline d) { return ends.a.send(memory.gather(0, 8), d); };
    CHECK(ended_error(ending, call) == code_of(ending));
  }
  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(*ends.a.first_cause() == code_of(ending));
}

TEST_CASE("write and read that wait behind a message without a receive are given up too",
          "[channel]") {
  auto const ending = GENERATE(Ending::times_out, Ending::is_cancelled, Ending::was_cancelled);
  auto ends = ends_waiting_by(Wait::adaptive);
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(ends.domain.allocate(64));
  auto exposed = must(ends.domain.unsafe_allocate_exposed(64, RemoteAccess::read_write));
  auto const remote = must(exposed.remote());
  PollingScope scope{ends.a};
  static_cast<void>(must(scope.post_send(memory.gather(0, 8))));

  SECTION("write") {
    auto const call = [&](Deadline d) {
      return ends.a.write({memory.gather(8, 8), remote.slice(0, 8)}, d);
    };
    CHECK(ended_error(ending, call) == code_of(ending));
  }
  SECTION("read") {
    auto const call = [&](Deadline d) {
      return ends.a.read({memory.scatter(8, 8), remote.slice(0, 8)}, d);
    };
    CHECK(ended_error(ending, call) == code_of(ending));
  }
  CHECK(memory.loans() == 0);
  CHECK(ends.a.first_cause() != nullptr);
  CHECK_FALSE(scope.finish().has_value());
}

TEST_CASE("a drain that is given up has flushed, and says so with every failure", "[channel]") {
  auto const ending = GENERATE(Ending::times_out, Ending::is_cancelled, Ending::was_cancelled);
  auto const how = GENERATE(Wait::spin, Wait::adaptive, Wait::event);
  auto ends = ends_waiting_by(how);
  auto memory = must(ends.domain.allocate(64));

  SECTION("finish") {
    auto const finish = [&](Deadline deadline) {
      PollingScope scope{ends.a};
      scope.drain_until(deadline);
      static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
      return scope.finish();
    };
    auto const error = ended_error(ending, finish);
    CHECK(error == code_of(ending));
    CHECK(error.drained().size() == 1);
  }
  SECTION("a closure's end") {
    auto const close = [&](Deadline deadline) {
      return ends.a.scope([&](PollingScope& scope) -> Result<void> {
        scope.drain_until(deadline);
        LEND_TRYV(scope.post_receive(memory.scatter(0, 8)));
        return success();
      });
    };
    auto const error = ended_error(ending, close);
    CHECK(error == code_of(ending));
    CHECK(error.drained().size() == 1);
  }
  SECTION("a closure's error, which stays the error") {
    auto const close = [&](Deadline deadline) {
      return ends.a.scope([&](PollingScope& scope) -> Result<void> {
        scope.drain_until(deadline);
        LEND_TRYV(scope.post_receive(memory.scatter(0, 8)));
        return Errc::not_found;
      });
    };
    auto const error = ended_error(ending, close);
    CHECK(error == Errc::not_found);
    CHECK(error.drained().size() == 1);
  }
  SECTION("the destructor") {
    auto const leave = [&](Deadline deadline) -> Result<void> {
      {
        PollingScope scope{ends.a};
        scope.drain_until(deadline);
        static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
      }
      CHECK(ends.a.last_failures().size() == 1);
      return *ends.a.first_cause();
    };
    CHECK(ended_error(ending, leave) == code_of(ending));
  }
  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(*ends.a.first_cause() == code_of(ending));
}

TEST_CASE("of drain_within and drain_until the sooner one bounds a drain", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.a};
  bool const within_is_sooner = GENERATE(false, true);
  scope.drain_within(within_is_sooner ? 1ms : 1h);
  scope.drain_until(within(within_is_sooner ? std::chrono::nanoseconds{1h} : 1ms));
  static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));

  CHECK(error_of(scope.finish()) == Errc::timed_out);
}

TEST_CASE("a cancellation does not end work that is over", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  Cancellation stopping;
  stopping.cancel();
  Deadline const over = Deadline::never().unless(stopping);
  PollingScope scope{ends.b};
  scope.drain_until(over);
  auto arrival = must(scope.post_receive(memory.scatter(0, 8), over));  // there is room
  must(ends.a.send(memory.gather(32, 8)));

  for (;;) {  // on a network it may still be under way
    auto const done = arrival.wait(over);
    if (done.has_value()) break;
    REQUIRE(done.error() == Errc::cancelled);
  }
  must(scope.finish());
  CHECK(ends.b.first_cause() == nullptr);
}
