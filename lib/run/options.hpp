// SPDX-License-Identifier: MIT OR Apache-2.0
// What lend-run is asked to do. Values.
#pragma once

#include <lend/base/result.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lend::run {

inline constexpr std::uint32_t ranks_max = 4096;  // of one host

inline constexpr std::string_view usage =
    "usage: lend-run -n N [--restarts K] [--timeout D] [--pty] [--] PROGRAM [ARGUMENT…]\n"
    "\n"
    "Starts PROGRAM as N ranks on this host, which meet by lend::Group::join().\n"
    "\n"
    "  -n N          how many ranks, 1 to 4096\n"
    "  --restarts K  starts a rank that failed again, K times in all, unless one has finished\n"
    "  --timeout D   ends the ranks after D: 500ms, 30s, 5m or 1h\n"
    "  --pty         gives each rank a terminal for its output, also where lend-run has none\n"
    "  --help        this text\n"
    "\n"
    "Each line of output begins with its rank, as in [3]. Rank 0 reads the standard input, unless\n"
    "that is a terminal. Where the output of lend-run is a terminal, that of each rank is one, "
    "too.\n"
    "SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT and SIGWINCH are passed "
    "on\n"
    "to all ranks. When a rank fails and is not started again, the others get SIGTERM, and SIGKILL "
    "after\n"
    "5 s. What the ranks started ends with lend-run, however that ends.\n"
    "\n"
    "Exit status: that of the first rank that failed (128 + N for signal N), or 0; 2 for a wrong\n"
    "command line, 124 after --timeout, 125 if lend-run itself failed or output was lost,\n"
    "126 or 127 if PROGRAM cannot be started.\n";

struct Options {
  bool help = false, pty = false;
  std::uint32_t ranks = 0, restarts = 0;
  std::optional<std::chrono::milliseconds> timeout{};
  std::vector<char*> program{};  ///< with its arguments; ends with a null pointer
};

/// Shape:   without the name of lend-run itself.
/// Errors:  invalid_argument.
[[nodiscard]] Result<Options> parse(std::span<char* const> arguments);

}  // namespace lend::run
