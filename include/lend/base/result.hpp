// SPDX-License-Identifier: MIT OR Apache-2.0
// Result<T>: a value or an Error. The only file that includes Boost.Outcome.
#pragma once

#include <lend/base/error.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/stop.hpp>

#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/try.hpp>

#include <string>
#include <utility>

namespace lend {

namespace outcome = BOOST_OUTCOME_V2_NAMESPACE;

/// value() of an error, or error() of a value, stops the process with a sentence. assume_value()
/// and assume_error() are not checked. lend throws no error; lib/guide/errors.md says what happens
/// when memory runs out.
struct StopOnWrongAccess : outcome::policy::base {
  template <class Impl>
  static constexpr void wide_value_check(Impl&& self) {
    if (base::_has_value(std::forward<Impl>(self))) return;
    if constexpr (requires { std::string{base::_error(self).message()}; })
      stop("value() of a Result that holds an error: " + std::string{base::_error(self).message()});
    else
      stop("value() of a Result that holds an error");
  }
  template <class Impl>
  static constexpr void wide_error_check(Impl&& self) {
    if (!base::_has_error(std::forward<Impl>(self))) stop("error() of a Result that holds a value");
  }
};

/// A value or an Error; ignoring one is a compile-time warning.
template <class T>
using Result = outcome::basic_result<T, Error, StopOnWrongAccess>;

/// The same with an error type of the program's own, which is default constructible. If it can be
/// made from an Error, LEND_TRY() and Channel::scope() do so.
template <class T, class OwnError>
using ResultOf = outcome::basic_result<T, OwnError, StopOnWrongAccess>;

[[nodiscard]] inline auto success() noexcept {
  return outcome::success();
}

/// For LEND_TRY(): the value of a result that has one.
template <class R>
[[nodiscard]] constexpr auto&& value_within(R&& result LEND_LIFETIMEBOUND) noexcept {
  return std::forward<R>(result).assume_value();
}

}  // namespace lend

/// LEND_TRY(name, expression): declares `name` from the value, or returns the error.
/// LEND_TRYV(expression): the same without a value. Each is several statements: use braces around
/// it as the body of an `if` or a loop. Do not nest one in the expression of another, for instance
/// in a closure there: name its result first.
#define LEND_TRY(name, ...) LEND_TRY_BY(LEND_UNIQUE(lend_tried_, __COUNTER__), name, __VA_ARGS__)
#define LEND_TRYV(...) BOOST_OUTCOME_TRYV(__VA_ARGS__)

// What LEND_TRY() stands for: Boost's macro, but for value_within(), which tells clang that the
// value is in a local.
#define LEND_TRY_BY(result, name, ...)                           \
  auto&& result = (__VA_ARGS__);                                 \
  if (!result.has_value()) [[unlikely]]                          \
    return static_cast<decltype(result)&&>(result).as_failure(); \
  auto&& name = ::lend::value_within(static_cast<decltype(result)&&>(result))
#define LEND_UNIQUE(name, number) LEND_UNIQUE_BY(name, number)
#define LEND_UNIQUE_BY(name, number) name##number
