// SPDX-License-Identifier: MIT OR Apache-2.0
// Where in the user's program a call was made. A plain value; any thread.
#pragma once

#include <lend/base/language.hpp>

namespace lend {

/// A file and a line, 16 bytes.
///
/// As a defaulted parameter (`SourceLine where = SourceLine::here()`) it names the caller's line.
/// Not std::source_location: clang before 16 does not provide it with libstdc++.
struct SourceLine {
  char const* file = "";
  unsigned line = 0;

  static constexpr SourceLine here(char const* file = __builtin_FILE(),
                                   unsigned line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

}  // namespace lend
