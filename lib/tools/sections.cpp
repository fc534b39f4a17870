// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds sections by the names in their headings: "### `12`, `retry_exceeded`".
#include <tools/sections.hpp>

#include <algorithm>

namespace lend::tools {

namespace {

constexpr std::string_view page =
#include "failures.inc"
    ;

/// Calls `act(name, section)` for each name in each heading.
template <class Act>
void for_each_name(Act&& act) {
  constexpr std::string_view mark = "\n### ";
  for (auto at = page.find(mark); at != page.npos; at = page.find(mark, at + 1)) {
    auto const end_of_heading = page.find('\n', at + 1);
    auto heading = page.substr(at, end_of_heading - at);
    auto section = page.substr(end_of_heading);
    section = section.substr(0, section.find("\n#"));
    section.remove_prefix(std::min(section.find_first_not_of('\n'), section.size()));
    for (auto quote = heading.find('`'); quote != heading.npos; quote = heading.find('`')) {
      heading.remove_prefix(quote + 1);
      auto const length = std::min(heading.find('`'), heading.size());
      act(heading.substr(0, length), section);
      heading.remove_prefix(std::min(length + 1, heading.size()));
    }
  }
}

}  // namespace

std::optional<std::string_view> section_of(std::string_view name) {
  std::optional<std::string_view> found;
  for_each_name([&](std::string_view one, std::string_view section) {
    if (!found && one == name) found = section;
  });
  return found;
}

std::vector<std::string_view> section_names() {
  std::vector<std::string_view> names;
  for_each_name([&](std::string_view one, std::string_view) { names.push_back(one); });
  return names;
}

}  // namespace lend::tools
