// SPDX-License-Identifier: MIT OR Apache-2.0
// What the command lines of `lend` and `lend-run` have in common: how they are taken apart, their
// help and their errors. CLI11 does it behind this header, because it takes seconds to compile.
// One thread.
#pragma once

#include <lend/base/result.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace lend::command {

/// What a command is, for its help.
struct About {
  std::string_view synopsis;   ///< lines, such as "lend info [--json]"
  std::string_view paragraph;  ///< begins with a short sentence; wrapped
  std::string_view
      rest;  ///< paragraphs below the options; lines that begin with spaces are not wrapped
};

/// Words of a command line that ends in a program with its arguments.
struct Split {
  std::vector<std::string> own;    ///< with -np as --np, if there is that option
  std::span<char* const> program;  ///< from behind the options, or behind `--`
};

/// The options and words of one command. Names are such as "-n,--np"; a `kind` is such as FILE.
/// Borrows: what values are put into, and the texts of `About`, until the last parse().
class CommandLine {
 public:
  using Take = std::function<Result<void>(std::string const&)>;

  /// Takes -h and --help.
  explicit CommandLine(About const& about);

  /// One of several, of which a command line must name one.
  [[nodiscard]] CommandLine add_command(std::string const& name, About const& about);
  CommandLine& version(std::string const& text);
  CommandLine& flag(std::string const& names, bool& is_set, std::string const& text);
  CommandLine& value(std::string const& names, std::string const& kind, Take take,
                     std::string const& text);
  /// A file or directory: refuses an empty name.
  CommandLine& path(std::string const& names, std::string const& kind, std::string& path,
                    std::string const& text);
  /// `value` becomes `otherwise` if the option has no value.
  CommandLine& optional_value(std::string const& names, std::string const& kind, std::string& value,
                              std::string const& otherwise, std::string const& text);
  CommandLine& words(std::string const& kind, std::vector<std::string>& words,
                     std::string const& text);

  [[nodiscard]] Split split_off_program(std::span<char* const> words) const;
  /// A text: print it instead, the help or the version.
  /// Errors:  invalid_argument  the message names the nearest word that is known.
  [[nodiscard]] Result<std::optional<std::string>> parse(std::vector<std::string> words);
  /// The name of the command that was parsed; empty: none, or there are none.
  [[nodiscard]] std::string parsed_command() const;
  /// The help of a command; none: it is not known.
  [[nodiscard]] std::optional<std::string> help_of(std::string const& command) const;

 private:
  explicit CommandLine(std::shared_ptr<CLI::App> app) noexcept : app_{std::move(app)} {}

  std::shared_ptr<CLI::App> app_;  // of an added command: with the whole
};

/// "`what` `word`", and "; the nearest is …" if one of `known` is at most two characters away.
[[nodiscard]] Error unknown_word(std::string_view what, std::string_view word,
                                 std::span<std::string_view const> known);

/// "64K", "2M", "1GiB": of 1,024. None: it is no size, or above 2^63.
[[nodiscard]] std::optional<std::uint64_t> size_in(std::string_view text);
/// "500ms", "30s", "30", "5m", "1h". None: it is no time above 0, or above 2^63 ms.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_in(std::string_view text);

}  // namespace lend::command
