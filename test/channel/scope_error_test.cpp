// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a scope says whether its body or its drain failed, also in the program's own error type.
// Method: each cell of the result table with an error type that has an Error inside.
#include "support/two_ends.hpp"

#include <string>
#include <utility>
#include <variant>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

enum class Game { over };

struct OwnError {
  std::variant<Game, Error> what{};
  OwnError() = default;
  OwnError(Game game) noexcept : what{game} {}                // NOLINT(google-explicit-constructor)
  OwnError(Error error) noexcept : what{std::move(error)} {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] Error const* error() const { return std::get_if<Error>(&what); }
};
template <class T>
using OwnResult = ResultOf<T, OwnError>;

template <class Body>
concept IsBody = requires(Channel& channel, Body body) {
  channel.scope(body);
};
static_assert(IsBody<OwnResult<int> (*)(PollingScope&)>);
static_assert(IsBody<OwnResult<void> (*)(PollingScope&)>);
static_assert(!IsBody<ResultOf<int, Game> (*)(PollingScope&)>);  // makes nothing of an Error

}  // namespace

TEST_CASE("an error says whether a scope's drain found it", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  SECTION("it did") {
    auto const error = error_of(ends.a.scope([&](PollingScope& scope) -> Result<int> {
      static_cast<void>(post_failing(ends, scope, memory));
      return 5;
    }));
    CHECK(error == Errc::work_failed);
    CHECK(error.is_of_drain());
    CHECK(error.drained()[0].is_of_drain() == false);
  }
  SECTION("the body returned one, and the drain found another") {
    auto const error = error_of(ends.a.scope([&](PollingScope& scope) -> Result<int> {
      static_cast<void>(post_failing(ends, scope, memory));
      return Errc::not_found;
    }));
    CHECK_FALSE(error.is_of_drain());
    CHECK(error.drained().size() == 1);
  }
  SECTION("the body polled the failure itself") {
    auto const error = error_of(ends.a.scope([&](PollingScope& scope) -> Result<int> {
      auto work = post_failing(ends, scope, memory);
      LEND_TRYV(work.wait(within(5s)));
      return 5;
    }));
    CHECK(error == Errc::work_failed);
    CHECK_FALSE(error.is_of_drain());
  }
  SECTION("a manual scope's unpolled work") {
    PollingScope receiving{ends.b};
    static_cast<void>(must(receiving.post_receive(memory.scatter(32, 8))));
    auto const error = error_of(ends.a.manual_scope([&](PollingScope& scope) -> Result<int> {
      LEND_TRYV(scope.post_send(memory.gather(0, 8)));
      return 5;
    }));
    CHECK(error == Errc::unpolled_work);
    CHECK(error.is_of_drain());
    must(receiving.finish());
  }
  CHECK(memory.loans() == 0);
}

TEST_CASE("a scope gives back values and errors of the program's own", "[channel]") {
  auto ends = two_ends();
  auto const value = ends.a.scope([](PollingScope&) -> OwnResult<std::string> { return "five"; });
  CHECK(value.value() == "five");

  auto const over = ends.a.scope([](PollingScope&) -> OwnResult<void> { return Game::over; });
  REQUIRE(over.has_error());
  CHECK(std::holds_alternative<Game>(over.error().what));
}

TEST_CASE("what a drain finds becomes an error of the program's own", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto const result = ends.a.scope([&](PollingScope& scope) -> OwnResult<int> {
    static_cast<void>(post_failing(ends, scope, memory));
    return 5;
  });

  REQUIRE(result.has_error());
  REQUIRE(result.error().error() != nullptr);
  CHECK(*result.error().error() == Errc::work_failed);
  CHECK(result.error().error()->is_of_drain());
  CHECK(memory.loans() == 0);
}

TEST_CASE("an own error of the body leaves nothing outstanding, and the failures are kept",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto const body = [&](PollingScope& scope) -> OwnResult<int> {
    static_cast<void>(post_failing(ends, scope, memory));
    return Game::over;
  };
  auto const result = ends.a.manual_scope(body);

  REQUIRE(result.has_error());
  CHECK(result.error().error() == nullptr);
  CHECK(memory.loans() == 0);
  REQUIRE(ends.a.last_failures().size() == 1);
  CHECK(ends.a.last_failures()[0] == Errc::work_failed);
}

TEST_CASE("LEND_TRY makes an own error of an Error", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto const result = ends.a.scope([&](PollingScope& scope) -> OwnResult<int> {
    LEND_TRYV(scope.post_send(memory.gather(0, 65)));
    return 5;
  });

  REQUIRE(result.has_error());
  REQUIRE(result.error().error() != nullptr);
  CHECK(*result.error().error() == Errc::invalid_argument);
}
