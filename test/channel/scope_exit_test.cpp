// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every exit of a scope ends with nothing on loan and nothing forgotten.
// Method: the cells of the result table in turn, then the exits that must flush.
#include <memory>
#include <stdexcept>
#include <type_traits>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<PollingScope>);
static_assert(!std::is_move_constructible_v<PollingScope>);
static_assert(std::is_nothrow_destructible_v<PollingScope>);

namespace {

struct Oops : std::runtime_error {
  Oops() : std::runtime_error{"oops"} {}
};

}  // namespace

TEST_CASE("a scope whose work was polled gives the closure's value", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope receiving{ends.b};
  static_cast<void>(must(receiving.post_receive(memory.scatter(32, 8))));

  auto const body = [&](PollingScope& scope) -> Result<int> {
    LEND_TRY(sent, scope.post_send(memory.gather(0, 8)));
    LEND_TRYV(sent.wait(within(5s)));
    return 5;
  };

  SECTION("scope") {
    CHECK(must(ends.a.scope(body)) == 5);
  }
  SECTION("manual scope") {
    CHECK(must(ends.a.manual_scope(body)) == 5);
  }
  must(receiving.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("work left unpolled that succeeds is drained by a scope and an error of a manual scope",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope receiving{ends.b};
  static_cast<void>(must(receiving.post_receive(memory.scatter(32, 8))));

  auto const body = [&](PollingScope& scope) -> Result<int> {
    LEND_TRYV(scope.post_send(memory.gather(0, 8)));
    return 5;
  };

  SECTION("scope") {
    CHECK(must(ends.a.scope(body)) == 5);
  }
  SECTION("manual scope") {
    auto const error = error_of(ends.a.manual_scope(body));
    CHECK(error == Errc::unpolled_work);
    CHECK(error.drained().empty());
    CHECK(ends.a.first_cause() == nullptr);
  }
  must(receiving.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("every failure a drain finds is in the error", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  auto const body = [&](PollingScope& scope) -> Result<int> {
    static_cast<void>(post_failing(ends, scope, memory));
    LEND_TRYV(scope.post_receive(memory.scatter(32, 8)));  // flushed by the failure
    return 5;
  };

  bool const manual = GENERATE(false, true);
  auto const error = error_of(manual ? ends.a.manual_scope(body) : ends.a.scope(body));

  CHECK(error == (manual ? Errc::unpolled_work : Errc::work_failed));
  REQUIRE(error.drained().size() == 2);
  CHECK(class_of(error.drained()[0].work()->status) != FailureClass::flushed);
  CHECK(class_of(error.drained()[1].work()->status) == FailureClass::flushed);
  CHECK(memory.loans() == 0);
}

TEST_CASE("a failure that was polled is not reported again", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  auto const value = ends.a.scope([&](PollingScope& scope) -> Result<int> {
    auto work = post_failing(ends, scope, memory);
    CHECK(error_of(work.wait(within(5s))) == Errc::work_failed);
    return 5;
  });

  CHECK(must(value) == 5);
}

TEST_CASE("a closure's error comes back with the failures of the drain", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto const body = [&](PollingScope& scope) -> Result<int> {
    static_cast<void>(post_failing(ends, scope, memory));
    return Errc::not_found;
  };

  SECTION("scope") {
    auto const error = error_of(ends.a.scope(body));
    CHECK(error == Errc::not_found);
    REQUIRE(error.drained().size() == 1);
    CHECK(error.drained()[0] == Errc::work_failed);
  }
  SECTION("manual scope") {
    auto const error = error_of(ends.a.manual_scope(body));
    CHECK(error == Errc::not_found);
    REQUIRE(error.drained().size() == 1);
  }
  CHECK(memory.loans() == 0);
}

TEST_CASE("a closure's error comes back as it is when the drain finds nothing", "[channel]") {
  auto ends = two_ends();
  auto const error =
      error_of(ends.a.scope([](PollingScope&) -> Result<int> { return Errc::not_found; }));
  CHECK(error == Errc::not_found);
  CHECK(error.drained().empty());
}

TEST_CASE("an exception goes on after the drain, and the failures are kept", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  CHECK_THROWS_AS(ends.a
                      .scope([&](PollingScope& scope) -> Result<int> {
                        static_cast<void>(post_failing(ends, scope, memory));
                        throw Oops{};
                      })
                      .has_value(),
                  Oops);

  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.last_failures().size() == 1);
  CHECK(ends.a.last_failures()[0] == Errc::work_failed);
}

TEST_CASE("an exception with only sends outstanding lets them finish", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope receiving{ends.b};
  auto arrival = must(receiving.post_receive(memory.scatter(32, 8)));

  CHECK_THROWS_AS(ends.a
                      .scope([&](PollingScope& scope) -> Result<int> {
                        static_cast<void>(must(scope.post_send(memory.gather(0, 8))));
                        throw Oops{};
                      })
                      .has_value(),
                  Oops);

  CHECK(must(arrival.wait(within(5s))).bytes == 8);
  must(receiving.finish());
  CHECK(ends.a.first_cause() == nullptr);
  CHECK(ends.a.last_failures().empty());
}

TEST_CASE("an exception with a receive that is over, and not asked about, flushes nothing",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  std::optional<PendingWork> unasked;

  CHECK_THROWS_AS(ends.a
                      .scope([&](PollingScope& scope) -> Result<int> {
                        unasked = must(scope.post_receive(memory.scatter(32, 8)));
                        auto asked = must(scope.post_receive(memory.scatter(40, 8)));
                        must(ends.b.send(memory.gather(0, 8)));
                        must(ends.b.send(memory.gather(0, 8)));
                        must(asked.wait(within(5s)));
                        throw Oops{};
                      })
                      .has_value(),
                  Oops);

  CHECK(ends.a.first_cause() == nullptr);
  CHECK(memory.loans() == 0);
}

TEST_CASE("an exception with a receive outstanding flushes at once", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  CHECK_THROWS_AS(ends.a
                      .scope([&](PollingScope& scope) -> Result<int> {
                        static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
                        throw Oops{};
                      })
                      .has_value(),
                  Oops);

  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.first_cause() != nullptr);
  REQUIRE(ends.a.last_failures().size() == 1);
  CHECK(ends.a.last_failures()[0].work()->status == WorkStatus::flushed);
}

TEST_CASE("a receive that is never answered ends at the drain's bound", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  SECTION("finish() says so") {
    PollingScope scope{ends.a};
    scope.drain_within(20ms);
    static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
    auto const error = error_of(scope.finish());
    CHECK(error == Errc::timed_out);
    CHECK(error.drained().size() == 1);
  }
  SECTION("the destructor keeps what it found") {
    {
      PollingScope scope{ends.a};
      scope.drain_within(20ms);
      static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
    }
    CHECK(ends.a.last_failures().size() == 1);
  }
  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(*ends.a.first_cause() == Errc::timed_out);
}

TEST_CASE("a post that fails half way leaves the earlier posts to the drain", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope receiving{ends.b};
  auto arrival = must(receiving.post_receive(memory.scatter(32, 8)));

  auto const error = error_of(ends.a.scope([&](PollingScope& scope) -> Result<void> {
    LEND_TRYV(scope.post_send(memory.gather(0, 8)));
    LEND_TRYV(scope.post_send(memory.gather(60, 8)));
    return success();
  }));

  CHECK(error == Errc::invalid_argument);
  CHECK(must(arrival.wait(within(5s))).bytes == 8);
  must(receiving.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("a scope in a destructor during an unrelated unwind drains as on a normal exit",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  struct AtExit {
    TwoEnds& ends;
    MemoryRegion& memory;
    ~AtExit() {
      PollingScope scope{ends.a};
      static_cast<void>(scope.post_receive(memory.scatter(0, 8)));
      static_cast<void>(ends.b.send(memory.gather(32, 8)));
    }
  };

  auto const unwind = [&] {
    AtExit const at_exit{ends, memory};
    throw Oops{};
  };
  CHECK_THROWS_AS(unwind(), Oops);

  CHECK(ends.a.first_cause() == nullptr);
  CHECK(memory.loans() == 0);
}

TEST_CASE("scopes nest on one channel and each accounts for its own work", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope outer{ends.a};
  auto waiting = must(outer.post_receive(memory.scatter(0, 8)));

  {
    PollingScope inner{ends.a};
    PollingScope receiving{ends.b};
    static_cast<void>(must(receiving.post_receive(memory.scatter(16, 8))));
    static_cast<void>(must(inner.post_send(memory.gather(32, 8))));
    must(inner.finish());
    must(receiving.finish());
  }

  CHECK(outer.outstanding() == 1);
  must(ends.b.send(memory.gather(40, 8)));
  CHECK(must(waiting.wait(within(5s))).bytes == 8);
  must(outer.finish());
}

TEST_CASE("a scope that flushes ends the work of every scope of its channel, which tells it",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope outer{ends.a};
  auto held = must(outer.post_receive(memory.scatter(0, 8)));
  static_cast<void>(must(outer.post_receive(memory.scatter(8, 8))));

  {
    PollingScope inner{ends.a};
    inner.drain_within(0s);
    static_cast<void>(must(inner.post_receive(memory.scatter(16, 8))));
    auto const error = error_of(inner.finish());
    CHECK(error == Errc::timed_out);
    CHECK(error.drained().size() == 1);
  }

  CHECK(memory.loans() == 0);
  CHECK(outer.outstanding() == 0);
  auto const flushed = error_of(held.poll());
  CHECK(flushed.is_flush());
  REQUIRE(flushed.cause() != nullptr);
  CHECK(*flushed.cause() == Errc::timed_out);
  CHECK(error_of(outer.post_receive(memory.scatter(0, 8))) == Errc::channel_broken);
  auto const told = error_of(outer.finish());
  CHECK(told.drained().size() == 1);
}

TEST_CASE("a channel destroyed before its scope takes the outstanding work with it", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto channel = std::make_unique<Channel>(std::move(ends.a));

  PollingScope scope{*channel};
  auto work = must(scope.post_receive(memory.scatter(0, 8)));
  channel.reset();

  CHECK(memory.loans() == 0);
  CHECK(error_of(work.poll()) == Errc::stale_handle);
  CHECK(error_of(scope.post_receive(memory.scatter(0, 8))) == Errc::stale_handle);
  CHECK(error_of(scope.finish()) == Errc::stale_handle);
}

TEST_CASE("a scope that has finished posts nothing more", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.a};
  must(scope.finish());

  CHECK(error_of(scope.post_send(memory.gather(0, 8))) == Errc::stale_handle);
  CHECK(error_of(scope.finish()) == Errc::stale_handle);
  CHECK(memory.loans() == 0);
}
