// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each cell of the table of results is as it says. Method: every way out of a scope, times
// everything that its work may have come to, in one place.
#include <optional>
#include <stdexcept>

#include <lend/channel/unsafe.hpp>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Oops : std::runtime_error {
  Oops() : std::runtime_error{"oops"} {}
};

/// What is left of a scope's work when the scope ends.
enum class Left : std::uint8_t { nothing, success, failure };
/// How its block ends.
enum class Way : std::uint8_t { value, error, exception };
/// What it is.
enum class Kind : std::uint8_t { closure, manual_closure, finished, destroyed };

struct Outcome {
  std::optional<Error> error{};  ///< what came back, if not success
  std::optional<int> value{};
  bool threw = false;
};

/// Work that nobody polls comes to `left`; some that is polled goes before it.
void work(TwoEnds& ends, PollingScope& scope, MemoryRegion& memory, Left left) {
  auto polled = must(scope.post_send(memory.gather(0, 8)));
  must(polled.wait(within(10s)));
  if (left == Left::success) static_cast<void>(must(scope.post_send(memory.gather(8, 8))));
  if (left == Left::failure) static_cast<void>(post_failing(ends, scope, memory));
}

Outcome run(TwoEnds& ends, MemoryRegion& memory, Kind kind, Left left, Way way) {
  auto const block = [&](PollingScope& scope) -> Result<int> {
    work(ends, scope, memory, left);
    if (way == Way::exception) throw Oops{};
    if (way == Way::error) return Errc::not_found;
    return 5;
  };
  Outcome outcome;
  auto const take = [&outcome](auto const& result) {
    if (!result.has_value()) outcome.error = result.error();
  };
  try {
    if (kind == Kind::closure || kind == Kind::manual_closure) {
      auto const result = kind == Kind::closure ? ends.a.scope(block) : ends.a.manual_scope(block);
      take(result);
      if (result.has_value()) outcome.value = result.value();
    } else {
      PollingScope scope{ends.a};
      static_cast<void>(block(scope));
      if (kind == Kind::finished) take(scope.finish());
    }
  } catch (Oops const&) {
    outcome.threw = true;
  }
  return outcome;
}

}  // namespace

TEST_CASE("every cell of the table of results is as it says", "[channel]") {
  auto const kind = GENERATE(Kind::closure, Kind::manual_closure, Kind::finished, Kind::destroyed);
  auto const left = GENERATE(Left::nothing, Left::success, Left::failure);
  auto const way = GENERATE(Way::value, Way::error, Way::exception);
  if (way == Way::error && (kind == Kind::finished || kind == Kind::destroyed)) return;  // no such
  CAPTURE(static_cast<int>(kind), static_cast<int>(left), static_cast<int>(way));
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope receiving{ends.b};
  receiving.drain_within(0ms);
  for (std::size_t i = 0; i < 2; ++i)
    static_cast<void>(must(receiving.post_receive(memory.scatter(32 + 8 * i, 8))));

  auto const outcome = run(ends, memory, kind, left, way);

  std::size_t const failures = left == Left::failure ? 1 : 0;
  bool const is_kept = way == Way::exception || kind == Kind::destroyed;
  CHECK(outcome.threw == (way == Way::exception));
  if (is_kept) {
    CHECK(!outcome.error.has_value());
    CHECK(ends.a.last_failures().size() == failures);
  } else {
    auto const expected = way == Way::error ? std::optional{Errc::not_found}
                          : kind == Kind::manual_closure && left != Left::nothing
                              ? std::optional{Errc::unpolled_work}
                          : left == Left::failure ? std::optional{Errc::work_failed}
                                                  : std::nullopt;
    REQUIRE(outcome.error.has_value() == expected.has_value());
    if (expected) {
      CHECK(*outcome.error == *expected);
      CHECK(outcome.error->drained().size() == failures);
    } else if (kind != Kind::finished) {
      CHECK(outcome.value == 5);
    }
  }
  CHECK((ends.a.first_cause() != nullptr) == (left == Left::failure));
  static_cast<void>(receiving.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("failures come in the order in which they were seen, also those that handles kept back",
          "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  auto memory = must(ends.domain.allocate(64));
  std::optional<PendingWork> kept;

  auto const error = error_of(ends.a.scope([&](PollingScope& scope) -> Result<void> {
    LEND_TRYV(scope.post_receive(memory.scatter(32, 8)));  // flushed by the failure
    kept = post_failing(ends, scope, memory);
    LEND_TRYV(scope.post_receive(memory.scatter(40, 8)));
    return success();
  }));

  REQUIRE(error.drained().size() == 3);
  CHECK(class_of(error.drained()[0].work()->status) != FailureClass::flushed);
  CHECK(error.drained()[1].work()->bytes == 8);
  CHECK(class_of(error.drained()[1].work()->status) == FailureClass::flushed);
  CHECK(class_of(error.drained()[2].work()->status) == FailureClass::flushed);
}

TEST_CASE("a closure that finishes its scope itself gives its own result", "[channel]") {
  auto ends = two_ends();
  bool const manual = GENERATE(false, true);
  auto const run = [&](auto body) {
    return manual ? ends.a.manual_scope(body) : ends.a.scope(body);
  };

  CHECK(must(run([](PollingScope& scope) -> Result<int> {
          LEND_TRYV(scope.finish());
          CHECK(error_of(scope.finish()) == Errc::stale_handle);
          return 5;
        })) == 5);
  CHECK(error_of(run([](PollingScope& scope) -> Result<int> {
          LEND_TRYV(scope.finish());
          return Errc::not_found;
        })) == Errc::not_found);
}

TEST_CASE("a scope whose channel is gone tells what was flushed with it", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  std::optional<Channel> channel{std::move(ends.a)};
  std::optional<Error> error;

  SECTION("finish") {
    PollingScope scope{*channel};
    auto const held = must(scope.post_receive(memory.scatter(0, 8)));
    static_cast<void>(must(scope.post_receive(memory.scatter(8, 8))));
    channel.reset();
    error = error_of(scope.finish());
    CHECK(*error == Errc::stale_handle);
  }
  SECTION("a closure's value") {
    error = error_of(channel->scope([&](PollingScope& scope) -> Result<int> {
      auto const held = must(scope.post_receive(memory.scatter(0, 8)));
      static_cast<void>(must(scope.post_receive(memory.scatter(8, 8))));
      channel.reset();
      return 5;
    }));
    CHECK(*error == Errc::stale_handle);
  }
  SECTION("a closure's error") {
    error = error_of(channel->scope([&](PollingScope& scope) -> Result<int> {
      auto const held = must(scope.post_receive(memory.scatter(0, 8)));
      static_cast<void>(must(scope.post_receive(memory.scatter(8, 8))));
      channel.reset();
      return Errc::not_found;
    }));
    CHECK(*error == Errc::not_found);
  }
  CHECK(error->drained().size() == 2);
  CHECK(memory.loans() == 0);
}

TEST_CASE("an exception that leaves two scopes of two channels drains both", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto const inner = [&](PollingScope& scope) -> Result<int> {
    LEND_TRYV(scope.post_send(memory.gather(0, 8)));
    throw Oops{};
  };
  auto const outer = [&](PollingScope& scope) -> Result<int> {
    LEND_TRYV(scope.post_receive(memory.scatter(32, 8)));
    LEND_TRYV(scope.post_receive(memory.scatter(40, 8)));  // nobody answers this one
    return ends.a.scope(inner);
  };

  CHECK_THROWS_AS(ends.b.scope(outer).has_value(), Oops);

  CHECK(memory.loans() == 0);
  CHECK(ends.a.first_cause() == nullptr);
  CHECK(ends.b.first_cause() != nullptr);
}

TEST_CASE("an exception that leaves scopes within scopes of one channel keeps what each had",
          "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  auto memory = must(ends.domain.allocate(64));
  auto const leave = [&](bool outermost_is_inside) {
    PollingScope outer{ends.a};
    if (outermost_is_inside) static_cast<void>(must(outer.post_receive(memory.scatter(16, 8))));
    PollingScope middle{ends.a};
    PollingScope inner{ends.a};
    static_cast<void>(must(inner.post_receive(memory.scatter(32, 8))));
    auto polled = must(inner.post_receive(memory.scatter(48, 8)));
    static_cast<void>(post_failing(ends, inner, memory));
    // Until the write has failed; unwinding would flush it else, for the receives.
    CHECK(error_of(polled.wait(within(10s))).is_flush());
    throw Oops{};
  };

  bool const outer_has_work = GENERATE(false, true);
  CHECK_THROWS_AS(leave(outer_has_work), Oops);

  auto const kept = ends.a.last_failures();
  REQUIRE(kept.size() == (outer_has_work ? 3 : 2));
  // In the order in which they were seen, whichever scope they were of.
  CHECK(kept.front().work()->operation == Operation::write);
  CHECK(ends.a.first_cause()->message() == kept.front().message());
  CHECK(memory.loans() == 0);

  { PollingScope next{ends.a}; }
  CHECK(ends.a.last_failures().empty());
}

TEST_CASE("scopes one after another inside a third keep no more than the last of them",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  {
    PollingScope outer{ends.a};
    {
      PollingScope inner{ends.a};
      inner.drain_within(0ms);
      static_cast<void>(must(inner.post_receive(memory.scatter(0, 8))));
    }
    CHECK(ends.a.last_failures().size() == 1);
    { PollingScope inner{ends.a}; }
    CHECK(ends.a.last_failures().empty());
  }
  CHECK(ends.a.last_failures().empty());
}

TEST_CASE("an inner scope that must flush leaves its failures to each scope that has some",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope outer{ends.a};
  auto const waiting = must(outer.post_receive(memory.scatter(0, 8)));

  auto const inner = error_of(ends.a.scope([&](PollingScope& scope) -> Result<void> {
    scope.drain_within(0ms);
    LEND_TRYV(scope.post_receive(memory.scatter(8, 8)));
    return success();
  }));

  CHECK(inner == Errc::timed_out);
  CHECK(inner.drained().size() == 1);
  CHECK(memory.loans() == 0);
  auto const error = error_of(outer.finish());
  CHECK(error == Errc::work_failed);
  CHECK(error.drained().size() == 1);
}

TEST_CASE("a send that a silent peer never receives ends at the drain's bound", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(ends.domain.allocate(64));

  auto const error = error_of(ends.a.scope([&](PollingScope& scope) -> Result<void> {
    scope.drain_within(20ms);
    LEND_TRYV(scope.post_send(memory.gather(0, 8)));
    return success();
  }));

  CHECK(error == Errc::timed_out);
  CHECK(error.drained().size() == 1);
  CHECK(memory.loans() == 0);
}

TEST_CASE("a scope left without finish keeps failures of unsafe posts that it saw", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  {
    PollingScope scope{ends.a};
    scope.drain_within(0ms);
    static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
    // SAFETY: memory outlives both channels, and nobody else uses these bytes.
    static_cast<void>(must(unsafe_post_receive(ends.a, memory.scatter(8, 8))));
  }
  CHECK(ends.a.last_failures().size() == 2);
}
