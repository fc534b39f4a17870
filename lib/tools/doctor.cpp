// SPDX-License-Identifier: MIT OR Apache-2.0
// lend doctor
#include <lend/doctor/capture.hpp>
#include <lend/doctor/examine.hpp>
#include <lend/doctor/examine_pair.hpp>

#include <tools/by_cm.hpp>
#include <tools/capture_file.hpp>
#include <tools/commands.hpp>
#include <tools/json.hpp>
#include <tools/secret_file.hpp>

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

/// Serves until a peer went through it; peers that went away meanwhile are named.
Result<std::vector<Finding>> serve_peer(CommandLine const& line, ExchangeOptions const& options) {
  LEND_TRY(listener, ExaminationListener::open(line.address, options, by_cm()));
  std::fprintf(stderr, "listening at %s\n", listener.address().c_str());
  for (;;) {
    auto findings = listener.serve(Deadline::never());
    if (findings) return findings;
    auto const& error = findings.error();
    if (error != Errc::peer_lost && error != Errc::incompatible_peer) return error;
    std::fprintf(stderr, "lend: %s; still listening\n", error.message().c_str());
  }
}

Result<std::vector<Finding>> examine_into(std::string_view path) {
  LEND_TRY(file, NewFile::create(path));  // before anything is looked at
  auto capture = capture_examination();
  LEND_TRYV(file.write(capture.text));
  std::fprintf(stderr, "lend: look through %s before you send it\n", std::string{path}.c_str());
  return std::move(capture.findings);
}

Result<std::vector<Finding>> examine_by(CommandLine const& line) {
  if (!line.capture_in.empty()) return examine_into(line.capture_in);
  if (!line.replay_of.empty()) {
    LEND_TRY(text, text_in_file(line.replay_of));
    return examine_captured(text);
  }
  if (line.address.empty()) return examine();
  LEND_TRY(secret, secret_in(line.secret_in));
  ExchangeOptions const options{.secret = std::move(secret)};
  if (line.listens) return serve_peer(line, options);
  // Each of its steps has bounds of its own.
  return examine_with(line.address, Deadline::never(), options, by_cm());
}

void print(std::vector<Finding> const& findings, bool as_json) {
  std::fputs((as_json ? json_of(findings) : text_of_all(findings)).c_str(), stdout);
}

}  // namespace

int doctor(CommandLine const& line) {
  auto const examined = examine_by(line);
  if (!examined) {
    auto const& error = examined.error();
    bool const is_input =
        error == Errc::invalid_argument || error == Errc::not_found || !line.replay_of.empty();
    if (!is_input) print(examine(), line.json);  // what is so of this process alone
    return complain(error, is_input ? status_of_usage : status_of_failure);
  }
  auto const& findings = examined.value();
  auto const count = [&](FindingLevel level) {
    return std::ranges::count(findings, level, &Finding::level);
  };
  print(findings, line.json);
  auto const failures = count(FindingLevel::fail) + (line.strict ? count(FindingLevel::warn) : 0);
  return failures == 0 ? 0 : status_of_failure;
}

}  // namespace lend::tools
