// SPDX-License-Identifier: MIT OR Apache-2.0
// How values of JSON are laid out.
#include <tools/json.hpp>

#include <vector>

namespace lend::tools {

std::string text_of(Json const& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string text_of(Json const& head, char const* rows, std::span<Json const> values) {
  auto text = text_of(head);
  text.back() = text.size() > 2 ? ',' : ' ';  // of "{…}", or of "{}"
  text += '"' + std::string{rows} + "\":[";
  char const* separator = "\n";
  for (Json const& value : values) {
    (text += separator) += text_of(value);
    separator = ",\n";
  }
  return text += "\n]}\n";
}

std::string json_of(std::span<Finding const> findings) {
  std::vector<Json> values;
  for (auto const& finding : findings)
    values.push_back({{"id", finding.id},
                      {"level", name_of(finding.level)},
                      {"subject", finding.subject},
                      {"seen", finding.seen},
                      {"why", finding.why},
                      {"mend", finding.mend},
                      {"page", finding.page}});
  return text_of(Json{{"schema", 1}}, "findings", values);
}

}  // namespace lend::tools
