// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line of lend.
#include <base/printable.hpp>
#include <tools/command_line.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

namespace lend::tools {

namespace {

using Arguments = std::span<char* const>;

constexpr auto commands = std::to_array<std::string_view>(
    {"doctor", "info", "bench", "run", "trace", "explain", "--help", "--version"});
constexpr auto doctor_options = std::to_array<std::string_view>(
    {"--listen", "--secret", "--strict", "--json", "--capture", "--replay"});
constexpr auto run_options = std::to_array<std::string_view>({"--faults", "--record"});
constexpr auto trace_options = std::to_array<std::string_view>({"--json", "--follow"});

Result<CommandLine> parse_doctor(Arguments rest) {
  CommandLine line{.command = Command::doctor};
  while (!rest.empty()) {
    std::string_view const word = rest.front();
    rest = rest.subspan(1);
    if (word == "--strict") {
      line.strict = true;
    } else if (word == "--json") {
      line.json = true;
    } else if (word == "--listen" && line.address.empty()) {
      line.listens = true;
      line.address = listen_address;
      if (!rest.empty() && is_address(rest.front())) {
        line.address = rest.front();
        rest = rest.subspan(1);
      }
    } else if (word == "--secret" || word == "--capture" || word == "--replay") {
      if (rest.empty() || rest.front()[0] == '\0')
        return Error{Errc::invalid_argument, std::string{word} + " lacks its file"};
      (word == "--secret"    ? line.secret_in
       : word == "--capture" ? line.capture_in
                             : line.replay_of) = rest.front();
      rest = rest.subspan(1);
    } else if (is_address(word) && line.address.empty()) {
      line.address = word;
    } else if (is_address(word) || word == "--listen") {
      return unknown_word("doctor takes one address, and no second", word, {});
    } else if (word.starts_with('-')) {
      return unknown_word("doctor has no option", word, doctor_options);
    } else {
      return unknown_word("doctor takes an address HOST:PORT, and no", word, doctor_options);
    }
  }
  if (line.address.empty() && !line.secret_in.empty())
    return Error{Errc::invalid_argument, "--secret is for a peer: name its address, or --listen"};
  if (!line.address.empty() + !line.capture_in.empty() + !line.replay_of.empty() > 1)
    return Error{Errc::invalid_argument, "doctor takes an address, --capture or --replay, not two"};
  return line;
}

Result<CommandLine> parse_run(Arguments rest) {
  CommandLine line{.command = Command::run};
  while (!rest.empty() && rest.front()[0] == '-') {
    std::string_view const word = rest.front();
    rest = rest.subspan(1);
    if (word == "--") break;
    if (word != "--faults" && word != "--record")
      return unknown_word("run has no option", word, run_options);
    if (rest.empty())
      return Error{Errc::invalid_argument,
                   word == "--faults" ? "--faults lacks its plan" : "--record lacks its directory"};
    (word == "--faults" ? line.faults : line.record_in) = rest.front();
    rest = rest.subspan(1);
  }
  if (rest.empty()) return Error{Errc::invalid_argument, "PROGRAM is missing"};
  line.program = rest;
  return line;
}

Result<CommandLine> parse_trace(Arguments rest) {
  CommandLine line{.command = Command::trace};
  while (!rest.empty() && rest.front()[0] == '-') {
    std::string_view const word = rest.front();
    rest = rest.subspan(1);
    if (word == "--") break;
    if (word == "--json")
      line.json = true;
    else if (word == "--follow")
      line.follow = true;
    else
      return unknown_word("trace has no option", word, trace_options);
  }
  if (line.json && line.follow)
    return Error{Errc::invalid_argument, "--follow prints lines: leave out --json"};
  if (rest.empty()) return Error{Errc::invalid_argument, "DIRECTORY or FILE is missing"};
  line.paths = rest;
  return line;
}

std::optional<Command> command_of(std::string_view word) {
  if (word == "-h") return Command::help;
  auto const* const found = std::ranges::find(commands, word);
  if (found == commands.end()) return std::nullopt;
  return static_cast<Command>(found - commands.begin());
}

}  // namespace

Error unknown_word(std::string_view what, std::string_view word,
                   std::span<std::string_view const> known) {
  std::string text{what};
  (text += ' ') += base::shown(word);
  if (!known.empty()) (text += "; the nearest is ") += nearest(word, known);
  return {Errc::invalid_argument, std::move(text)};
}

std::string_view nearest(std::string_view word, std::span<std::string_view const> known) {
  // Levenshtein's distance, row by row.
  auto const distance = [&](std::string_view to) {
    std::vector<std::size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {
      auto diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < to.size(); ++j) {
        auto const replaced = diagonal + (word[i] == to[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
      }
    }
    return row.back();
  };
  auto const found = std::ranges::min_element(known, {}, distance);
  return found == known.end() ? std::string_view{} : *found;
}

Result<CommandLine> parse(Arguments arguments) {
  if (arguments.empty()) return Error{Errc::invalid_argument, "a command is missing"};
  std::string_view const word = arguments.front();
  auto const rest = arguments.subspan(1);
  auto const command = command_of(word);
  if (!command) return unknown_word("unknown command", word, commands);
  switch (*command) {
    case Command::doctor: return parse_doctor(rest);
    case Command::bench: {
      LEND_TRY(options, parse_bench(rest));
      return CommandLine{.command = *command, .bench = std::move(options)};
    }
    case Command::run: return parse_run(rest);
    case Command::trace: return parse_trace(rest);
    case Command::explain:
      if (rest.size() != 1) return Error{Errc::invalid_argument, "explain takes one NAME"};
      return CommandLine{.command = *command, .name = rest.front()};
    case Command::info:
    case Command::help:
    case Command::version: break;
  }
  if (!rest.empty()) return unknown_word(std::string{word} + " takes no", rest.front(), {});
  return CommandLine{.command = *command};
}

}  // namespace lend::tools
