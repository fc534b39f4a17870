// SPDX-License-Identifier: MIT OR Apache-2.0
// Findings and pages for people.
#include <base/printable.hpp>
#include <tools/report.hpp>

#include <algorithm>
#include <array>

namespace lend::tools {

namespace {

constexpr std::size_t margin = 9;  // of levels
constexpr std::size_t indent = 15;

command::Tone tone_of(FindingLevel level) noexcept {
  switch (level) {
    case FindingLevel::ok: return command::Tone::good;
    case FindingLevel::warn: return command::Tone::warning;
    case FindingLevel::fail: return command::Tone::bad;
    case FindingLevel::skipped: break;
  }
  return command::Tone::plain;
}

/// One wrapped text, whose first `margin` characters have the level's colour.
std::string lines_of(FindingLevel level, std::string text, command::Look look) {
  base::replace_controls(text);
  auto const name = name_of(level);
  std::string head{name};
  head.resize(margin, ' ');
  auto const all = command::wrapped(head, text, margin, look.columns);
  return command::toned(look, tone_of(level), name) + all.substr(name.size());
}

std::string labelled(std::string_view label, std::string text, command::Look look) {
  if (text.empty()) return {};
  std::ranges::replace(text, '\n', ' ');
  base::replace_controls(text);
  return command::wrapped(std::string(margin, ' ') + std::string{label}, text, indent,
                          look.columns);
}

std::string text_of_one(Finding const& finding, command::Look look) {
  bool const is_skipped = finding.level == FindingLevel::skipped;
  auto const& seen = is_skipped ? finding.why : finding.seen;
  auto text =
      lines_of(finding.level, std::string{finding.id} + ", " + finding.subject + ": " + seen, look);
  if (!is_skipped) text += labelled("why:  ", finding.why, look);
  // Commands are copied, and not broken.
  for (std::string_view rest = finding.mend; !rest.empty();) {
    auto const end = std::min(rest.find('\n'), rest.size());
    std::string line{rest.substr(0, end)};
    base::replace_controls(line);
    text += (rest.data() == finding.mend.data() ? "         mend: " : std::string(indent, ' ')) +
            line + '\n';
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return text;
}

/// A line without the marks of code, and links by their text alone.
std::string without_marks(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '`') continue;
    auto const end = line[i] == '[' ? line.find("](", i) : line.npos;
    auto const close = end == line.npos ? line.npos : line.find(')', end);
    if (close == line.npos) {
      text += line[i];
      continue;
    }
    text += without_marks(line.substr(i + 1, end - i - 1));
    i = close;
  }
  return text;
}

}  // namespace

std::string report_of(std::span<Finding const> findings, command::Look look, bool verbose) {
  if (findings.empty()) return {};
  auto text = text_of_one(findings.back(), look) + '\n';
  auto const others = findings.first(findings.size() - 1);
  for (auto const level : {FindingLevel::fail, FindingLevel::warn, FindingLevel::ok})
    for (auto const& finding : others)
      if (finding.level == level) text += text_of_one(finding, look);
  std::string names;
  for (auto const& finding : others) {
    if (finding.level != FindingLevel::skipped) continue;
    if (verbose)
      text += text_of_one(finding, look);
    else
      (names += names.empty() ? "" : ", ") += finding.id;
  }
  if (!names.empty())
    text += lines_of(FindingLevel::skipped, names + " (--verbose says why)", look);
  return text;
}

std::string plain_text_of(std::string_view markdown, std::size_t columns) {
  constexpr std::string_view quotation = "> ";
  std::string text, paragraph;
  bool is_quotation = false, is_broken = false;
  // Of a quotation whose lines are those of a program, all but the first are further in, as there.
  auto const end_line = [&](bool will_go_on) {
    if (paragraph.empty()) return;
    if (!text.empty() && !is_broken) text += '\n';
    std::size_t const inset = is_quotation ? (is_broken ? 6 : 4) : 0;
    text += command::wrapped(std::string(inset, ' '), without_marks(paragraph), inset, columns);
    paragraph.clear();
    is_broken = will_go_on;
  };
  while (!markdown.empty()) {
    auto const end = std::min(markdown.find('\n'), markdown.size());
    auto line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    if (line.empty()) {
      end_line(false);
      continue;
    }
    is_quotation = line.starts_with(quotation);
    if (is_quotation) line.remove_prefix(quotation.size());
    bool const is_broken_here = line.ends_with('\\');
    if (is_broken_here) line.remove_suffix(1);
    if (!paragraph.empty()) paragraph += ' ';
    paragraph += line;
    if (is_broken_here) end_line(true);
  }
  end_line(false);
  return text;
}

}  // namespace lend::tools
