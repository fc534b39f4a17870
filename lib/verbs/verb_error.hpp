// SPDX-License-Identifier: MIT OR Apache-2.0
// What to say of a verb that failed. Any thread.
#pragma once

#include <lend/base/error.hpp>
#include <verbs/provider.hpp>

#include <cerrno>
#include <string>
#include <string_view>

namespace lend {

/// The errno of a verb that answered `result`: most answer errno itself, some -1 and set it.
/// Call it before anything else can change errno.
[[nodiscard]] inline int errno_of(int result) noexcept {
  return result == -1 ? errno : (result < 0 ? -result : result);
}

/// What to do: the provider's own reason where it has one, since it knows what it refused.
[[nodiscard]] inline std::string_view reason_or(Provider const& provider,
                                                std::string_view remedy) noexcept {
  char const* const reason = provider.last_reason();
  return reason != nullptr ? reason : remedy;
}

/// `verb` failed with `errno_value`, from which the code is chosen.
inline Error verb_error(Provider const& provider, std::string_view verb, int errno_value,
                        std::string_view remedy = {}) noexcept {
  return Error::from_errno(verb, errno_value, reason_or(provider, remedy));
}

/// The same where the caller knows the code.
inline Error verb_error(Errc code, Provider const& provider, std::string_view verb, int errno_value,
                        std::string_view remedy = {}) noexcept {
  return Error::from_errno(code, verb, errno_value, reason_or(provider, remedy));
}

}  // namespace lend
