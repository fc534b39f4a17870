// SPDX-License-Identifier: MIT OR Apache-2.0
// What `lend` is asked to do. Values.
#pragma once

#include <lend/base/result.hpp>
#include <lend/observe/metrics.hpp>

#include <tools/bench/options.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lend::tools {

enum class Command { doctor, info, bench, run, trace, top, explain, text };

struct TopOptions {
  std::optional<MetricsFormat> format{};  ///< none: a table
  std::string write_to{};                 ///< a file; empty: the standard output
  std::optional<std::uint64_t> count{};   ///< of tables or texts
  std::chrono::milliseconds every{2000};
};

struct CommandLine {
  Command command{};
  std::string text{};  ///< to print: a help or the version
  bool strict = false;
  bool json = false;
  bool environment = false;  ///< info: the variables instead
  bool verbose = false;      ///< the doctor: also why something was skipped
  bool follow = false;
  bool listens = false;              ///< the doctor, at `address`
  std::string address{};             ///< of its peer; empty: it examines this process alone
  std::string secret_in{};           ///< a file; empty: none
  std::string capture_in{};          ///< the doctor: a file to make; empty: none
  std::string replay_of{};           ///< the doctor: a file; empty: it examines this process
  std::string faults{};              ///< empty: none
  std::string record_in{};           ///< empty: nowhere
  std::vector<std::string> paths{};  ///< of recordings or of metrics
  std::span<char* const> program{};  ///< with its arguments
  std::string name{};                ///< to explain
  BenchOptions bench{};
  TopOptions top{};
};

/// Shape:   without the name of the program itself; a null pointer follows the last.
/// Errors:  invalid_argument  the message names the nearest word that is known.
[[nodiscard]] Result<CommandLine> parse(std::span<char* const> arguments);

}  // namespace lend::tools
