// SPDX-License-Identifier: MIT OR Apache-2.0
// Help and errors of command lines.
#include <base/printable.hpp>
#include <command/command_line.hpp>
#include <command/terminal.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

namespace lend::command {

namespace {

constexpr std::size_t option_columns = 20;  // longer names have a line of their own

/// "-n, --np N": as a user writes it.
std::string names_of(CLI::Option const& option) {
  std::string text;
  for (auto const& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  for (auto const& name : option.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
  if (option.get_items_expected_max() == 0) return text;  // a flag
  bool const may_lack = option.get_expected_min() == 0;
  return text + (may_lack ? " [" : " ") + option.get_type_name() + (may_lack ? "]" : "");
}

/// The words of a command, or its options, a paragraph each.
std::string text_of_options(CLI::App const& app, bool are_words, std::size_t columns) {
  std::string text;
  for (auto const* option : app.get_options()) {
    if (option->get_positional() != are_words) continue;
    auto const names = are_words ? option->get_name() : names_of(*option);
    auto head = "  " + names;
    if (head.size() + 2 > option_columns)
      head += '\n' + std::string(option_columns, ' ');
    else
      head.resize(option_columns, ' ');
    text += wrapped(head, option->get_description(), option_columns, columns);
  }
  return text;
}

/// Lines for `lend help` that name its commands.
std::string text_of_commands(CLI::App const& app, std::size_t columns) {
  std::string text;
  for (auto const* command : app.get_subcommands(nullptr)) {
    auto head = "  " + command->get_name();
    head.resize(12, ' ');
    auto const about = command->get_description();
    auto const begin = about.find("\n\n") + 2;
    text += wrapped(head, about.substr(begin, about.find('.', begin) - begin), 12, columns);
  }
  return text;
}

std::string formatted_help(CLI::App const* app, std::string const&, CLI::AppFormatMode) {
  auto const columns = columns_of_terminal();
  auto const about = app->get_description();
  auto const end_of_synopsis = about.find("\n\n");
  std::string text;
  for (std::size_t at = 0; at < end_of_synopsis;) {
    auto const end = std::min(about.find('\n', at), end_of_synopsis);
    text += wrapped(at == 0 ? "usage: " : "       ", about.substr(at, end - at), 11, columns);
    at = end + 1;
  }
  text += '\n' + wrapped("", about.substr(end_of_synopsis + 2), 0, columns);
  if (auto const commands = text_of_commands(*app, columns); !commands.empty())
    text += "\nCommands:\n" + commands;
  if (auto const words = text_of_options(*app, true, columns); !words.empty())
    text += "\nArguments:\n" + words;
  text += "\nOptions:\n" + text_of_options(*app, false, columns);
  if (!app->get_footer().empty()) text += '\n';
  for (auto const& line : CLI::detail::split(app->get_footer(), '\n'))
    text += line.starts_with("  ") ? line + '\n' : wrapped("", line, 0, columns);
  return text;
}

/// The command that the words have named so far.
CLI::App const& innermost(CLI::App const& app) {
  auto const commands = app.get_subcommands();
  return commands.empty() ? app : innermost(*commands.back());
}

std::vector<std::string> words_of(CLI::App const& app) {
  std::vector<std::string> words;
  for (auto const* command : app.get_subcommands(nullptr)) words.push_back(command->get_name());
  for (auto const* option : app.get_options()) {
    for (auto const& name : option->get_snames()) words.push_back('-' + name);
    for (auto const& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

Error error_of(CLI::App const& app, CLI::ParseError const& error) {
  auto const& command = innermost(app);
  auto const name = &command == &app ? std::string{} : command.get_name() + ' ';
  if (auto const left = app.remaining(true); !left.empty()) {
    auto const& word = left.front();
    auto const words = words_of(command);
    std::vector<std::string_view> const known{words.begin(), words.end()};
    auto const what = word.starts_with('-')
                          ? (name.empty() ? "there is no option" : "has no option")
                      : command.get_subcommands(nullptr).empty() ? "takes no"
                                                                 : "unknown command";
    return unknown_word(name + what, word, known);
  }
  std::string text = error.what();
  if (dynamic_cast<CLI::ArgumentMismatch const*>(&error) != nullptr &&
      text.find(" required ") != text.npos)
    text = text.substr(0, text.find(':')) + " lacks its value";
  if (auto const at = text.find(" was given a disallowed flag override"); at != text.npos)
    text = "--" + text.substr(0, at) + " takes no value";
  if (dynamic_cast<CLI::RequiredError const*>(&error) != nullptr &&
      text.find("subcommand") != text.npos)
    text = "a command is missing";
  base::replace_controls(text);
  return {Errc::invalid_argument, std::move(text)};
}

/// Levenshtein's distance, row by row.
std::size_t changes_between(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      auto const replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// The number at the head of `text`, which keeps the rest. None: there is none, or it is too large.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// None: the product is above 2^63.
std::optional<std::uint64_t> product_of(std::uint64_t number, std::uint64_t unit) {
  constexpr auto most = std::uint64_t{1} << 63;
  if (number > most / unit) return std::nullopt;
  return number * unit;
}

void describe(CLI::App& app, About const& about) {
  (void)app.description(std::string{about.synopsis} + "\n\n" + std::string{about.paragraph});
  app.footer(std::string{about.rest});
  app.formatter_fn(formatted_help);
  app.set_help_flag("-h,--help", "prints this help");
}

}  // namespace

CommandLine::CommandLine(About const& about) : app_{std::make_shared<CLI::App>()} {
  describe(*app_, about);
}

CommandLine CommandLine::add_command(std::string const& name, About const& about) {
  auto* const added = app_->add_subcommand(name);
  app_->require_subcommand(1);
  describe(*added, about);
  return CommandLine{{app_, added}};
}

CommandLine& CommandLine::version(std::string const& text) {
  app_->set_version_flag("-V,--version", text, "prints the version, its commit and its features");
  return *this;
}

CommandLine& CommandLine::flag(std::string const& names, bool& is_set, std::string const& text) {
  app_->add_flag(names, is_set, text)->disable_flag_override();
  return *this;
}

CommandLine& CommandLine::value(std::string const& names, std::string const& kind, Take take,
                                std::string const& text) {
  auto const checked = [take = std::move(take)](std::string const& value) {
    auto const taken = take(value);
    if (!taken)
      throw CLI::ValidationError{taken.error().message(), CLI::ExitCodes::ValidationError};
  };
  app_->add_option_function<std::string>(names, checked, text)->type_name(kind);
  return *this;
}

CommandLine& CommandLine::path(std::string const& names, std::string const& kind, std::string& path,
                               std::string const& text) {
  auto const last_name = names.substr(names.rfind(',') + 1);
  auto const keep = [&path, last_name](std::string const& value) -> Result<void> {
    if (value.empty()) return Error{Errc::invalid_argument, last_name + " lacks its value"};
    path = value;
    return success();
  };
  return this->value(names, kind, keep, text);
}

CommandLine& CommandLine::optional_value(std::string const& names, std::string const& kind,
                                         std::string& value, std::string const& otherwise,
                                         std::string const& text) {
  app_->add_option(names, value, text)->type_name(kind)->expected(0, 1)->default_str(otherwise);
  return *this;
}

CommandLine& CommandLine::words(std::string const& kind, std::vector<std::string>& words,
                                std::string const& text) {
  app_->add_option(kind, words, text)->type_name("");
  return *this;
}

Split CommandLine::split_off_program(std::span<char* const> words) const {
  Split split;
  while (!words.empty()) {
    std::string word = words.front();
    if (word.size() < 2 || word.front() != '-') break;
    words = words.subspan(1);
    if (word == "--") break;
    if (app_->get_option_no_throw('-' + word) != nullptr) word.insert(0, 1, '-');
    auto const* const option = app_->get_option_no_throw(word);
    split.own.push_back(std::move(word));
    bool const has_value_behind = option != nullptr && option->get_items_expected_min() > 0;
    if (!has_value_behind || words.empty()) continue;
    split.own.emplace_back(words.front());
    words = words.subspan(1);
  }
  split.program = words;
  return split;
}

Result<std::optional<std::string>> CommandLine::parse(std::vector<std::string> words) {
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    app_->parse(std::move(words));
  } catch (CLI::CallForVersion const& version) {
    return std::optional{std::string{version.what()} + '\n'};
  } catch (CLI::CallForHelp const&) {
    return std::optional{app_->help()};
  } catch (CLI::ParseError const& error) {
    return error_of(*app_, error);
  }
  return std::optional<std::string>{};
}

std::string CommandLine::parsed_command() const {
  auto const commands = app_->get_subcommands();
  return commands.empty() ? std::string{} : commands.front()->get_name();
}

std::optional<std::string> CommandLine::help_of(std::string const& command) const {
  for (auto const* one : std::as_const(*app_).get_subcommands(nullptr))
    if (one->get_name() == command) return formatted_help(one, {}, CLI::AppFormatMode::Normal);
  return std::nullopt;
}

Error unknown_word(std::string_view what, std::string_view word,
                   std::span<std::string_view const> known) {
  auto const letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  auto const changes_max = std::min<std::size_t>(2, letters / 2);
  std::string text{what};
  (text += ' ') += base::shown(word);
  auto const changes = [&](std::string_view to) { return changes_between(word, to); };
  auto const nearest = std::ranges::min_element(known, {}, changes);
  if (nearest != known.end() && changes(*nearest) <= changes_max)
    (text += "; the nearest is ") += *nearest;
  return {Errc::invalid_argument, std::move(text)};
}

std::optional<std::uint64_t> size_in(std::string_view text) {
  auto unit = text;
  auto const number = take_number(unit);
  if (!number) return std::nullopt;
  if (unit.empty() || unit == "B") return number;
  constexpr std::string_view letters = "KMGT";
  auto const letter = letters.find(unit.front() == 'k' ? 'K' : unit.front());
  unit.remove_prefix(1);
  if (letter == letters.npos || !(unit.empty() || unit == "B" || unit == "iB")) return std::nullopt;
  return product_of(*number, std::uint64_t{1} << (10 * (letter + 1)));
}

std::optional<std::chrono::milliseconds> time_in(std::string_view text) {
  constexpr std::uint64_t second = 1000;
  auto unit = text;
  auto const number = take_number(unit);
  if (!number || *number == 0) return std::nullopt;
  std::uint64_t const factor = unit == "ms"                  ? 1
                               : unit == "s" || unit.empty() ? second
                               : unit == "m"                 ? 60 * second
                               : unit == "h"                 ? 3600 * second
                                                             : 0;
  if (factor == 0) return std::nullopt;
  auto const all = product_of(*number, factor);
  if (!all || *all > INT64_MAX) return std::nullopt;
  return std::chrono::milliseconds{*all};
}

}  // namespace lend::command
