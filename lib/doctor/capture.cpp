// SPDX-License-Identifier: MIT OR Apache-2.0
// Captures: an examination's questions and answers, after a head, and before what was found.
#include <lend/doctor/capture.hpp>

#include <doctor/checks.hpp>
#include <doctor/record.hpp>
#include <verbs/device/built_with.hpp>

#include <memory>
#include <utility>

namespace lend {

namespace {

constexpr std::size_t captured_bytes_max = 8 * 1024 * 1024;
constexpr std::string_view captured_head = "lend doctor, capture ";
constexpr std::string_view captured_version = "1";

constexpr std::string_view captured_notice =
    "# What `lend doctor` asked this host and process, and what they answered. Addresses of ports\n"
    "# are replaced. Look through it before you send it; `lend doctor --replay FILE` examines "
    "it.\n";

doctor::Host host_of(doctor::Answers answers) {
  return {.record = std::make_shared<doctor::Record>(std::move(answers))};
}

}  // namespace

Capture doctor::capture(Host host) {
  host.record = std::make_shared<Record>();
  auto findings = examine(host);
  auto answers = host.record->answers();
  hide_addresses(answers);
  std::string text{captured_head};
  ((text += captured_version) += '\n') += captured_notice;
  text += "# lend " LEND_VERSION "\n";
  if (auto const left_out = host.record->left_out(); left_out != 0)
    text += "# " + std::to_string(left_out) + " answers were left out: they are too long\n";
  ((text += '\n') += text_of(answers)) += "\n# What it found:\n";
  // Without this host's addresses.
  Answers found;
  for (auto const& finding : examine(host_of(std::move(answers))))
    found.emplace("found " + std::string{finding.id} + ' ' + std::string{name_of(finding.level)} +
                      ", " + finding.subject,
                  finding.level == FindingLevel::skipped ? finding.why : finding.seen);
  return {std::move(findings), text + text_of(found)};
}

Capture capture_examination() {
  return doctor::capture(doctor::this_host());
}

Result<std::vector<Finding>> examine_captured(std::string_view text) {
  if (text.size() > captured_bytes_max)
    return Error{Errc::invalid_argument, "it is no capture of the doctor: it is too long"};
  auto const head = text.substr(0, text.find('\n'));
  if (!head.starts_with(captured_head))
    return Error{Errc::invalid_argument,
                 "it is no capture of the doctor: it does not begin as one"};
  auto version = head.substr(captured_head.size());
  if (version.ends_with('\r')) version.remove_suffix(1);
  if (version != captured_version)
    return Error{Errc::unsupported, "it is a capture of a later version of lend"};
  LEND_TRY(answers, doctor::answers_of(text.substr(head.size())));
  return doctor::examine(host_of(std::move(answers)));
}

}  // namespace lend
