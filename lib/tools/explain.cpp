// SPDX-License-Identifier: MIT OR Apache-2.0
// lend explain
#include <command/command_line.hpp>
#include <command/terminal.hpp>
#include <tools/commands.hpp>
#include <tools/report.hpp>
#include <tools/sections.hpp>

#include <cstdio>

namespace lend::tools {

namespace {

std::string joined(std::vector<std::string_view> const& names, std::string_view separator) {
  std::string text;
  for (auto const name : names) ((text += text.empty() ? "" : separator)) += name;
  return text;
}

/// All names, by chapter.
std::string text_of_names(command::Look look) {
  std::string text;
  std::string_view chapter;
  std::vector<std::string> lines;
  for (auto const& section : sections()) {
    if (section.chapter != chapter) {
      chapter = section.chapter;
      lines.push_back(std::string{chapter} + ':');
    }
    // A status by its number has its name behind it.
    (lines.back() += ' ') += joined(
        {section.names.begin(), section.names.begin() + (section.names.size() > 1 ? 2 : 1)}, "=");
  }
  for (auto const& line : lines) text += command::wrapped("", line, 2, look.columns);
  return text;
}

}  // namespace

int explain(CommandLine const& line) {
  auto const look = command::look_of_output();
  if (line.name.empty()) {
    std::fputs(text_of_names(look).c_str(), stdout);
    return 0;
  }
  auto const section = section_of(line.name);
  if (!section) {
    std::vector<std::string_view> names;
    for (auto const& one : sections())
      names.insert(names.end(), one.names.begin(), one.names.end());
    auto const status =
        complain(command::unknown_word("lend has no code, status or finding", line.name, names),
                 status_of_usage);
    std::fputs("`lend explain` lists all names\n", stderr);
    return status;
  }
  auto const title = joined(section->names, ", ");
  std::printf("%s (%s)\n%s", command::toned(look, command::Tone::strong, title).c_str(),
              std::string{section->chapter}.c_str(),
              plain_text_of(section->text, look.columns).c_str());
  return 0;
}

}  // namespace lend::tools
