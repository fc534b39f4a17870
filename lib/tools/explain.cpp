// SPDX-License-Identifier: MIT OR Apache-2.0
// lend explain
#include <base/printable.hpp>
#include <tools/commands.hpp>
#include <tools/sections.hpp>

#include <cstdio>

namespace lend::tools {

int explain(CommandLine const& line) {
  auto const section = section_of(line.name);
  if (!section) {
    auto const names = section_names();
    return complain(
        {Errc::not_found, "there is no " + base::shown(line.name) + "; the nearest is " +
                              std::string{nearest(line.name, names)}},
        status_of_usage);
  }
  std::printf("%.*s", static_cast<int>(section->size()), section->data());
  return 0;
}

}  // namespace lend::tools
