// SPDX-License-Identifier: MIT OR Apache-2.0
// What to say of a verb that failed. Any thread.
#pragma once

#include <lend/base/error.hpp>
#include <verbs/provider.hpp>

#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <string_view>

namespace lend {

/// The errno of a verb that answered `result`: most answer errno itself, some -1 and set it.
/// Call it before anything else can change errno.
[[nodiscard]] inline int errno_of(int result) noexcept {
  return result == -1 ? errno : (result < 0 ? -result : result);
}

/// `verb` failed with `errno_value`. The provider's own reason is preferred to `remedy`: it knows
/// what it refused.
inline Error verb_error(Provider const& provider, std::string_view verb, int errno_value,
                        std::string_view remedy = {}) {
  char const* const reason = provider.last_reason != nullptr ? provider.last_reason() : nullptr;
  return Error::from_errno(verb, errno_value, reason != nullptr ? reason : remedy);
}

/// What to do when memory could not be registered for want of memory.
/// Source: ibv_reg_mr(3); getrlimit(2), RLIMIT_MEMLOCK.
[[nodiscard]] inline std::string locked_memory_remedy(std::size_t length) {
  std::string text = "Registered memory is locked; asked for " + std::to_string(length) +
                     " bytes, RLIMIT_MEMLOCK is ";
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
    text += "unknown";
  else if (limit.rlim_cur == RLIM_INFINITY)
    text += "unlimited (the machine's memory ran out)";
  else
    text += std::to_string(limit.rlim_cur) + " bytes";
  return text +
         "; raise it with `ulimit -l unlimited` or a memlock line in /etc/security/limits.conf, "
         "or register less";
}

}  // namespace lend
