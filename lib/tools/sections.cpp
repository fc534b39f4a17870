// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds sections by the names in their headings: "### `12`, `retry_exceeded`".
#include <tools/sections.hpp>

#include <algorithm>

namespace lend::tools {

namespace {

constexpr std::string_view page =
#include "failures.inc"
    ;

/// What stands between backquotes.
std::vector<std::string_view> names_in(std::string_view heading) {
  std::vector<std::string_view> names;
  for (auto quote = heading.find('`'); quote != heading.npos; quote = heading.find('`')) {
    heading.remove_prefix(quote + 1);
    auto const length = std::min(heading.find('`'), heading.size());
    names.push_back(heading.substr(0, length));
    heading.remove_prefix(std::min(length + 1, heading.size()));
  }
  return names;
}

}  // namespace

std::vector<Section> sections() {
  std::vector<Section> all;
  std::string_view chapter;
  for (auto at = page.find("\n##"); at != page.npos; at = page.find("\n##", at + 1)) {
    auto const end = std::min(page.find('\n', at + 1), page.size());
    auto const heading = page.substr(at + 1, end - at - 1);
    if (!heading.starts_with("### ")) {
      chapter = heading.substr(3);
      continue;
    }
    auto text = page.substr(end);
    text = text.substr(0, text.find("\n#"));
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    all.push_back({chapter, names_in(heading), text});
  }
  return all;
}

std::optional<Section> section_of(std::string_view name) {
  for (auto const& section : sections())
    if (std::ranges::find(section.names, name) != section.names.end()) return section;
  return std::nullopt;
}

}  // namespace lend::tools
