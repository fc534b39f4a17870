// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors of failed verbs. Any thread.
#pragma once

#include <lend/base/error.hpp>
#include <verbs/device/provider.hpp>

#include <cerrno>
#include <string>
#include <string_view>

namespace lend::verbs {

/// The errno of a verb that returned `result`: most return errno itself, some -1 and set it. Call
/// it before anything else can change errno.
[[nodiscard]] inline int errno_of(int result) noexcept {
  return result == -1 ? errno : (result < 0 ? -result : result);
}

/// What to do: the provider's own reason if it has one, because it knows what it refused.
[[nodiscard]] inline std::string_view reason_or(Provider const& provider,
                                                std::string_view remedy) noexcept {
  char const* const reason = provider.last_reason();
  return reason != nullptr ? reason : remedy;
}

/// `verb` failed with `errno_value`, which determines the code.
inline Error verb_error(Provider const& provider, std::string_view verb, int errno_value,
                        std::string_view remedy = {}) noexcept {
  return Error::from_errno(verb, errno_value, reason_or(provider, remedy));
}

/// The same with a given code.
inline Error verb_error(Errc code, Provider const& provider, std::string_view verb, int errno_value,
                        std::string_view remedy = {}) noexcept {
  return Error::from_errno(code, verb, errno_value, reason_or(provider, remedy));
}

}  // namespace lend::verbs
