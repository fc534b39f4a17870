// SPDX-License-Identifier: MIT OR Apache-2.0
// The commands; each returns the exit status of `lend`. They print.
#pragma once

#include <lend/base/error.hpp>

#include <tools/command_line.hpp>

#include <cstdio>

namespace lend::tools {

inline constexpr int status_of_failure = 1;
inline constexpr int status_of_usage = 2;

[[nodiscard]] int doctor(CommandLine const&);
[[nodiscard]] int info(CommandLine const&);
[[nodiscard]] int bench(CommandLine const&);
/// Becomes the program; returns only if it cannot.
[[nodiscard]] int run(CommandLine const&);
[[nodiscard]] int trace(CommandLine const&);
[[nodiscard]] int top(CommandLine const&);
[[nodiscard]] int explain(CommandLine const&);

/// Prints the error; returns `status`.
[[nodiscard]] inline int complain(Error const& error, int status) {
  std::fprintf(stderr, "lend: %s\n", error.message().c_str());
  return status;
}

}  // namespace lend::tools
