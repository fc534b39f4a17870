// SPDX-License-Identifier: MIT OR Apache-2.0
// What `lend` is asked to do. Values.
#pragma once

#include <lend/base/result.hpp>

#include <tools/bench/options.hpp>

#include <span>
#include <string>
#include <vector>

namespace lend::tools {

enum class Command { doctor, info, bench, run, trace, explain, text };

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
  std::vector<std::string> paths{};  ///< of recordings
  std::span<char* const> program{};  ///< with its arguments
  std::string name{};                ///< to explain
  BenchOptions bench{};
};

/// Shape:   without the name of the program itself; a null pointer follows the last.
/// Errors:  invalid_argument  the message names the nearest word that is known.
[[nodiscard]] Result<CommandLine> parse(std::span<char* const> arguments);

}  // namespace lend::tools
