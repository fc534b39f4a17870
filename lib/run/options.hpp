// SPDX-License-Identifier: MIT OR Apache-2.0
// What lend-run is asked to do. Values.
#pragma once

#include <lend/base/result.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lend::run {

inline constexpr std::uint32_t ranks_max = 4096;  // of one host

struct Options {
  std::string text{};  ///< to print instead of all else: the help or the version
  bool pty = false;
  bool has_prefix = true;   ///< of each line: its rank
  bool binds = false;       ///< each rank to CPUs of its own
  std::string output_in{};  ///< a directory; empty: the output of lend-run
  std::uint32_t ranks = 0, restarts = 0;
  std::optional<std::chrono::milliseconds> timeout{};
  std::vector<char*> program{};  ///< with its arguments; ends with a null pointer
};

/// Shape:   without the name of lend-run itself.
/// Errors:  invalid_argument  the message names the nearest option.
[[nodiscard]] Result<Options> parse(std::span<char* const> arguments);

}  // namespace lend::run
