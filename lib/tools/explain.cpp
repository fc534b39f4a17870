// SPDX-License-Identifier: MIT OR Apache-2.0
// lend explain
#include <command/command_line.hpp>
#include <tools/commands.hpp>
#include <tools/sections.hpp>

#include <cstdio>

namespace lend::tools {

int explain(CommandLine const& line) {
  auto const section = section_of(line.name);
  if (!section) {
    auto const names = section_names();
    return complain(command::unknown_word("there is no", line.name, names), status_of_usage);
  }
  std::printf("%.*s", static_cast<int>(section->size()), section->data());
  return 0;
}

}  // namespace lend::tools
