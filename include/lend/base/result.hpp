// SPDX-License-Identifier: MIT OR Apache-2.0
// Result<T>: a value or an Error. The only file that knows Boost.Outcome.
#pragma once

#include <lend/base/error.hpp>
#include <lend/base/stop.hpp>

#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/try.hpp>
#include <boost/version.hpp>

namespace lend {

namespace outcome = BOOST_OUTCOME_V2_NAMESPACE;

/// Asking an error for its value(), or a value for its error(), is a broken promise: it stops the
/// process with a sentence. assume_value() and assume_error() are not checked. Nothing of lend
/// throws an error; README.md says what happens when memory runs out.
struct StopOnWrongAccess : outcome::policy::base {
  template <class Impl>
  static constexpr void wide_value_check(Impl&& self) {
    if (!base::_has_value(std::forward<Impl>(self)))
      stop("value() of a Result that holds an error: " + base::_error(self).message());
  }
  template <class Impl>
  static constexpr void wide_error_check(Impl&& self) {
    if (!base::_has_error(std::forward<Impl>(self))) stop("error() of a Result that holds a value");
  }
};

/// A value or an Error; ignoring one is a compile-time warning.
template <class T>
using Result = outcome::basic_result<T, Error, StopOnWrongAccess>;

[[nodiscard]] inline auto success() noexcept {
  return outcome::success();
}

}  // namespace lend

/// LEND_TRY(name, expression): declares `name` from the value, or returns the error.
/// LEND_TRYV(expression): the same where there is no value to keep.
/// Both are several statements: brace the body of an `if` or a loop that is one of them. And none
/// stands in the expression of another, as in a closure there: name its result first.
#if BOOST_VERSION < 107600
#define LEND_TRY(name, ...) BOOST_OUTCOME_TRY(name, __VA_ARGS__)
#else
#define LEND_TRY(name, ...) BOOST_OUTCOME_TRY(auto&& name, __VA_ARGS__)
#endif
#define LEND_TRYV(...) BOOST_OUTCOME_TRYV(__VA_ARGS__)
