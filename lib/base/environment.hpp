// SPDX-License-Identifier: MIT OR Apache-2.0
// What the environment says: only here it is read. As getenv(3) where threads are concerned.
#pragma once

#include <lend/base/result.hpp>

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace lend::base {

/// Why a variable is refused, as a clause behind its name.
inline constexpr char refused_because[] =
    "is set, and this program has privileges that its user lacks (AT_SECURE: set-user-ID, "
    "set-group-ID or file capabilities), for which the environment does not count: unset it, or "
    "start a copy of the program without the privileges";

/// A variable that is set to something, or none.
struct Variable {
  char const* name;
  std::string_view text{};  ///< a zero byte is behind it; empty: not set, or to nothing
  /// A program with AT_SECURE acts with privileges of others, and must not be directed by its user.
  /// Source: getauxval(3), ld.so(8), "Secure-execution mode".
  bool is_refused = false;
};

[[nodiscard]] inline Variable variable(char const* name) noexcept {
  char const* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return {.name = name};
  return {.name = name, .text = text, .is_refused = ::getauxval(AT_SECURE) != 0};
}

// Not inline: with the length of `name` known, g++ 12 warns of a copy that is not made.
[[nodiscard, gnu::cold, gnu::noinline]] inline Error refused_variable(char const* name) {
  return {Errc::denied, std::string{name} + " " + refused_because};
}

/// Its value; empty: not set, or to nothing.
/// Errors:  denied  it is set, and refused.
[[nodiscard]] inline Result<std::string_view> text_of_variable(char const* name) {
  auto const found = variable(name);
  if (!found.is_refused) return found.text;
  return refused_variable(name);
}

/// The names of set variables that begin so.
[[nodiscard]] inline std::vector<std::string> names_of_variables(std::string_view begin) {
  std::vector<std::string> names;
  for (char** each = ::environ; each != nullptr && *each != nullptr; ++each) {
    std::string_view const text{*each};
    if (text.starts_with(begin)) names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace lend::base
