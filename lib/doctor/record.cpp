// SPDX-License-Identifier: MIT OR Apache-2.0
// Answers of a host as text, and without its addresses.
#include <base/printable.hpp>
#include <doctor/host.hpp>
#include <verbs/device/gid_table.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

namespace lend::doctor {

namespace {

// A host of eight cards, each with 256 addresses, has some 500 KB.
constexpr std::size_t noted_bytes_max = 4 * 1024 * 1024;

constexpr std::string_view no = "no ";
constexpr std::string_view file_of = "file ", folder_of = "folder ";

void append_escaped(std::string& text, std::string_view line) {
  for (char const c : line) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~' && c != '\\') {
      text += c;
      continue;
    }
    std::array<char, 5> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", byte);
    text += escaped.data();
  }
}

/// None: a backslash that begins no "\x1b".
std::optional<std::string> unescaped(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    auto const is_escape = line.front() == '\\';
    if (!is_escape) {
      text += line.front();
      line.remove_prefix(1);
      continue;
    }
    auto const digits = line.substr(std::min<std::size_t>(2, line.size()), 2);
    if (!line.starts_with("\\x") || digits.size() < 2 ||
        digits.find_first_not_of("0123456789abcdef") != digits.npos)
      return std::nullopt;
    text += static_cast<char>(number_of(digits, 16).value_or(0));
    line.remove_prefix(4);
  }
  return text;
}

/// The next line of `text`, which then begins after it; without the '\r' that some mailers add.
std::string_view take_line(std::string_view& text) {
  auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// In the notation of sysfs: "fe80:0000:…".
std::string text_of_sysfs(Gid const& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.size(); i += 2) {
    std::array<char, 6> part{};
    std::snprintf(part.data(), part.size(), "%s%02x%02x", i == 0 ? "" : ":", gid[i], gid[i + 1]);
    text += part.data();
  }
  return text;
}

/// Address number `number` of those that no host has, and of the same kind as `gid`.
/// Source: RFC 2544 and RFC 3849, addresses for benchmarks and for documentation; RFC 4291.
Gid address_instead_of(Gid const& gid, std::size_t number) noexcept {
  constexpr Gid ipv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18};
  constexpr Gid link_local{0xfe, 0x80};
  constexpr Gid ipv6{0x20, 0x01, 0x0d, 0xb8};
  bool const is_local = gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
  auto found = verbs::is_ipv4_mapped(gid) ? ipv4 : is_local ? link_local : ipv6;
  found[14] = static_cast<std::uint8_t>(number >> 8);
  found[15] = static_cast<std::uint8_t>(number);
  return found;
}

}  // namespace

Answer Record::answer(std::string const& question, std::function<Answer()> const& ask) {
  if (stands_in_) {
    auto const found = answers_.find(question);
    if (found != answers_.end()) return found->second;
    if (lacking_.empty()) lacking_ = question;
    return std::nullopt;
  }
  auto answer = ask();
  auto const bytes = question.size() + (answer ? answer->size() : 0);
  if (answers_.contains(question)) return answer;
  if (bytes > noted_bytes_max - bytes_) {
    ++left_out_;
    return answer;
  }
  bytes_ += bytes;
  answers_.emplace(question, answer);
  return answer;
}

void hide_addresses(Answers& answers) {
  constexpr std::string_view table = "/gids/";
  std::map<Gid, std::size_t> numbers;
  std::set<std::string> unused;
  for (auto& [question, answer] : answers) {
    if (!question.starts_with(file_of) || question.find(table) == question.npos || !answer)
      continue;
    auto const gid = verbs::gid_of_text(*answer);
    answer = "no address";
    if (!gid) continue;
    if (*gid == Gid{}) {
      unused.insert(question);
      continue;
    }
    auto const number = numbers.emplace(*gid, numbers.size() + 1).first->second;
    answer = text_of_sysfs(address_instead_of(*gid, number));
  }
  for (auto const& question : unused) answers.erase(question);
  // Tables that go by the same index, such as those of the entries' interfaces, have it, too.
  for (auto& [question, answer] : answers) {
    auto const port = question.substr(0, question.find("/gid"));
    if (!question.starts_with(folder_of) || port.size() == question.size() || !answer) continue;
    auto const head = std::string{file_of} + question.substr(folder_of.size()) + '/';
    auto const gids = std::string{file_of} + port.substr(folder_of.size()) + std::string{table};
    std::string used;
    for (std::string_view rest = *answer; !rest.empty();) {
      std::string const name{take_line(rest)};
      auto const own = answers.find(head + name);
      bool const is_known = own != answers.end() && own->second;
      if (unused.contains(gids + name) && !is_known) continue;
      (used += used.empty() ? "" : "\n") += name;
    }
    answer = used.empty() ? Answer{} : used;
  }
}

std::string text_of(Answers const& answers) {
  std::string text;
  for (auto const& [question, answer] : answers) {
    if (!answer) text += no;
    append_escaped(text, question);
    text += '\n';
    for (std::string_view rest = answer ? *answer : std::string_view{}; !rest.empty();) {
      auto const line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      text += line.empty() ? "|" : "| ";
      append_escaped(text, line);
      text += '\n';
    }
  }
  return text;
}

Result<Answers> answers_of(std::string_view text) {
  Answers answers;
  Answer* last = nullptr;
  bool is_first_line = true;
  for (std::size_t number = 1; !text.empty(); ++number) {
    auto line = take_line(text);
    if (line.empty() || line.starts_with('#')) continue;
    auto const refused = [&](char const* why) {
      return Error{Errc::invalid_argument,
                   "line " + std::to_string(number) + ' ' + why + ": " + base::shown(line)};
    };
    bool const is_answer = line.starts_with('|');
    auto const head = is_answer              ? (line.starts_with("| ") ? 2u : 1u)
                      : line.starts_with(no) ? 3u
                                             : 0u;
    auto const plain = unescaped(line.substr(head));
    if (!plain) return refused("has a backslash that begins no \\x1b");
    if (!is_answer) {
      auto const [place, is_new] =
          answers.emplace(*plain, head == 0 ? Answer{std::string{}} : Answer{});
      if (!is_new) return refused("asks for the second time");
      last = &place->second;
      is_first_line = true;
      continue;
    }
    if (last == nullptr || !*last) return refused("answers no question");
    **last += (is_first_line ? "" : "\n") + *plain;
    is_first_line = false;
  }
  return answers;
}

}  // namespace lend::doctor
