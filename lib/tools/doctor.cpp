// SPDX-License-Identifier: MIT OR Apache-2.0
// lend doctor
#include <lend/doctor/examine.hpp>

#include <tools/commands.hpp>
#include <tools/json.hpp>

#include <algorithm>
#include <cstdio>

namespace lend::tools {

namespace {

/// Findings for people. Neighbours that were skipped for one reason take one line.
std::string text_of_all(std::vector<Finding> const& findings) {
  std::string text;
  for (auto at = findings.begin(); at != findings.end();) {
    auto const& first = *at;
    auto const is_alike = [&](Finding const& other) {
      return first.level == FindingLevel::skipped && first.level == other.level &&
             first.subject == other.subject && first.why == other.why && other.mend.empty();
    };
    auto merged = first;
    std::string ids{first.id};
    for (++at; at != findings.end() && is_alike(*at); ++at) (ids += ", ") += at->id;
    merged.id = ids;
    text += text_of(merged);
  }
  return text;
}

}  // namespace

int doctor(CommandLine const& line) {
  auto const findings = examine();
  auto const count = [&](FindingLevel level) {
    return std::ranges::count(findings, level, &Finding::level);
  };
  auto const text = line.json ? json_of(findings) : text_of_all(findings);
  std::fputs(text.c_str(), stdout);
  auto const failures = count(FindingLevel::fail) + (line.strict ? count(FindingLevel::warn) : 0);
  return failures == 0 ? 0 : status_of_failure;
}

}  // namespace lend::tools
