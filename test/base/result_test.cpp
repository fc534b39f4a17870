// SPDX-License-Identifier: MIT OR Apache-2.0
// Result and LEND_TRY: values pass, errors return early with their story, nothing is copied.
#include "support/catch.hpp"

#include <lend/base/result.hpp>

#include <cerrno>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace lend {
namespace {

static_assert(!std::is_convertible_v<Result<int>, int>);
static_assert(!std::is_default_constructible_v<Result<int>>);
static_assert(std::is_constructible_v<bool, Result<int>>);
static_assert(!std::is_convertible_v<Result<int>, bool>);
static_assert(std::is_convertible_v<Errc, Result<int>>);
static_assert(std::is_convertible_v<Error, Result<void>>);
static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
static_assert(std::is_nothrow_move_constructible_v<Result<std::unique_ptr<int>>>);

Result<int> half(int value) {
  if (value % 2 != 0) return Error{Errc::invalid_argument, std::to_string(value) + " is odd"};
  return value / 2;
}

Result<void> must_be_even(int value) {
  LEND_TRYV(without_value(half(value)));
  return success();
}

/// Each LEND_TRYV() is a whole statement.
Result<std::string> told_apart(bool is_first, int value) {
  if (is_first)
    LEND_TRYV(must_be_even(value));
  else
    LEND_TRYV(must_be_even(value + 1));
  for (int i = 0; i < value; i += 2) LEND_TRYV(must_be_even(i));
  if (is_first)
    if (value > 2)
      LEND_TRYV([&]() -> Result<void> {
        if (value > 4)
          LEND_TRYV([&]() -> Result<void> {
            LEND_TRY(halved, half(value));
            LEND_TRYV(must_be_even(halved));
            return success();
          }());
        return success();
      }());
  return std::string{is_first ? "first" : "second"};
}

Result<int> eighth(int value) {
  LEND_TRY(once, half(value));
  LEND_TRY(twice, half(once));
  LEND_TRY(thrice, half(twice));
  return thrice;
}

Result<std::unique_ptr<int>> boxed(int value) {
  if (value < 0) return Errc::exhausted;
  return std::make_unique<int>(value);
}

Result<std::unique_ptr<int>> boxed_again(int value) {
  LEND_TRY(box, boxed(value));
  *box += 1;
  return std::move(box);
}

TEST_CASE("LEND_TRY yields values in turn", "[base]") {
  auto const result = eighth(24);
  REQUIRE(result.has_value());
  CHECK(result.value() == 3);
}

TEST_CASE("LEND_TRY returns the first error with its story", "[base]") {
  auto const result = eighth(12);
  REQUIRE(result.has_error());
  CHECK(result.error() == Errc::invalid_argument);
  CHECK(result.error().message() == "3 is odd");
  CHECK(eighth(7).error().message() == "7 is odd");
}

TEST_CASE("LEND_TRYV passes success and returns an error", "[base]") {
  CHECK(must_be_even(2).has_value());
  CHECK(must_be_even(3).error() == Errc::invalid_argument);
}

TEST_CASE("LEND_TRYV is one statement, in branches, loops and closures within it", "[base]") {
  CHECK(told_apart(true, 2).value() == "first");
  CHECK(told_apart(true, 3).error().message() == "3 is odd");
  CHECK(told_apart(false, 3).value() == "second");
  CHECK(told_apart(false, 2).error().message() == "3 is odd");
  CHECK(told_apart(true, 8).value() == "first");
  CHECK(told_apart(true, 6).error().message() == "3 is odd");
}

TEST_CASE("LEND_TRY carries what can only be moved", "[base]") {
  auto result = boxed_again(4);
  REQUIRE(result.has_value());
  CHECK(*result.value() == 5);
  CHECK(boxed_again(-1).error() == Errc::exhausted);
}

TEST_CASE("LEND_TRY works in a lambda and takes commas", "[base]") {
  auto const sum = [](int a, int b) -> Result<int> {
    LEND_TRY(first, half(a));
    LEND_TRY(second, [](int x, int y) -> Result<int> { return half(x + y); }(b, 0));
    LEND_TRYV(must_be_even(first));
    return first + second;
  };
  CHECK(sum(4, 6).value() == 5);
  CHECK(sum(4, 5).error().message() == "5 is odd");
  CHECK(sum(2, 6).error().message() == "1 is odd");
}

TEST_CASE("an error crosses results of different values", "[base]") {
  auto const outer = []() -> Result<std::string> {
    LEND_TRY(value, half(5));
    return std::to_string(value);
  }();
  CHECK(outer.error().message() == "5 is odd");
}

TEST_CASE("a const result can be asked in place, a moved one gives its value away", "[base]") {
  Result<std::string> text{std::string(100, 'a')};
  CHECK(std::as_const(text).value().size() == 100);
  std::string const taken = std::move(text).value();
  CHECK(taken == std::string(100, 'a'));
}

}  // namespace
}  // namespace lend
