// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes JSON.
#include <tools/json.hpp>

#include <array>
#include <cstdint>
#include <cstdio>

namespace lend::tools {

namespace {

/// The length of the character at the head of `text`, 0 if it is no UTF-8. Source: RFC 3629 §3, §4.
std::size_t utf8_length(std::string_view text) noexcept {
  auto const byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  auto const first = byte(0);
  std::size_t const length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and what is beyond U+10FFFF.
  if (length < 3) return length;
  auto const second = byte(1);
  bool const is_bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return is_bad ? 0 : length;
}

void add_field(std::string& object, std::string_view name, std::string_view value) {
  if (object.back() != '{') object += ", ";
  ((object += json_of(name)) += ": ") += json_of(value);
}

}  // namespace

std::string json_of(std::string_view text) {
  std::string json{'"'};
  while (!text.empty()) {
    auto const length = utf8_length(text);
    auto const byte = static_cast<unsigned char>(text.front());
    if (length == 0) {
      json += "\\ufffd";
    } else if (byte < ' ' || byte == 0x7f) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", byte);
      json += escaped.data();
    } else {
      if (byte == '"' || byte == '\\') json += '\\';
      json += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return json += '"';
}

std::string json_of(std::span<Finding const> findings) {
  std::string json = "{\"schema\": 1, \"findings\": [";
  std::string_view separator = "\n  ";
  for (auto const& finding : findings) {
    std::string object{'{'};
    add_field(object, "id", finding.id);
    add_field(object, "level", name_of(finding.level));
    add_field(object, "subject", finding.subject);
    add_field(object, "seen", finding.seen);
    add_field(object, "why", finding.why);
    add_field(object, "mend", finding.mend);
    add_field(object, "page", finding.page);
    ((json += separator) += object) += '}';
    separator = ",\n  ";
  }
  return json += "\n]}\n";
}

}  // namespace lend::tools
