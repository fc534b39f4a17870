// SPDX-License-Identifier: MIT OR Apache-2.0
// Result<T>: a value or an Error. The only file that includes Boost.Outcome.
#pragma once

#include <lend/base/error.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/stop.hpp>

#include <boost/outcome/basic_result.hpp>

#include <string>
#include <type_traits>
#include <utility>

namespace lend {

namespace outcome = BOOST_OUTCOME_V2_NAMESPACE;

/// value() of an error, or error() of a value, aborts the process with a sentence. assume_value()
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

/// For LEND_TRY(): the value of a result that has a value.
template <class R>
[[nodiscard]] constexpr auto&& value_within(R&& result LEND_LIFETIMEBOUND) noexcept {
  return std::forward<R>(result).assume_value();
}

/// The result without its value, for LEND_TRYV() where the value is not wanted.
template <class R>
[[nodiscard]] constexpr auto without_value(R&& result) noexcept
    -> outcome::basic_result<void, typename std::remove_cvref_t<R>::error_type, StopOnWrongAccess> {
  if (result.has_value()) return outcome::success();
  return std::forward<R>(result).as_failure();
}

/// Whether LEND_TRYV() may drop a T: nothing, or a receipt, such as the handle of work that ends
/// with its scope. A program may say so of types of its own.
template <class T>
inline constexpr bool may_be_dropped = std::is_void_v<T>;

/// For LEND_TRYV(): whether no value is lost, also because the result has a name of its own.
template <class R>
inline constexpr bool is_kept =
    std::is_lvalue_reference_v<R> || may_be_dropped<typename std::remove_cvref_t<R>::value_type>;

}  // namespace lend

/// LEND_TRY(name, expression): declares `name` from the value, or returns the error. It is several
/// statements: as the body of an `if` or a loop it needs braces.
/// LEND_TRYV(expression): one statement, which returns the error if there is one. It refuses a
/// value that would be lost, as the sum of Team::allreduce(), unless lend::may_be_dropped or
/// lend::without_value().
#define LEND_TRY(name, ...) LEND_TRY_BY(LEND_UNIQUE(lend_tried_, __COUNTER__), name, __VA_ARGS__)
#define LEND_TRYV(...) LEND_TRYV_BY(LEND_UNIQUE(lend_tried_, __COUNTER__), __VA_ARGS__)

// What they stand for. value_within() tells clang that the value is in a local.
#define LEND_TRYV_BY(result, ...)                                                      \
  do {                                                                                 \
    auto&& result = (__VA_ARGS__);                                                     \
    static_assert(::lend::is_kept<decltype(result)>,                                   \
                  "LEND_TRYV() would drop the value: use LEND_TRY(name, expression)"); \
    if (!result.has_value()) [[unlikely]]                                              \
      return static_cast<decltype(result)&&>(result).as_failure();                     \
  } while (false)
#define LEND_TRY_BY(result, name, ...)                           \
  auto&& result = (__VA_ARGS__);                                 \
  if (!result.has_value()) [[unlikely]]                          \
    return static_cast<decltype(result)&&>(result).as_failure(); \
  auto&& name = ::lend::value_within(static_cast<decltype(result)&&>(result))
#define LEND_UNIQUE(name, number) LEND_UNIQUE_BY(name, number)
#define LEND_UNIQUE_BY(name, number) name##number
