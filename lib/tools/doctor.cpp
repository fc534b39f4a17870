// SPDX-License-Identifier: MIT OR Apache-2.0
// lend doctor
#include <lend/doctor/capture.hpp>
#include <lend/doctor/examine.hpp>
#include <lend/doctor/examine_pair.hpp>

#include <command/terminal.hpp>
#include <tools/by_cm.hpp>
#include <tools/capture_file.hpp>
#include <tools/commands.hpp>
#include <tools/json.hpp>
#include <tools/report.hpp>
#include <tools/secret_file.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace lend::tools {

namespace {

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
  command::Progress progress{STDERR_FILENO, {}};
  progress.show("comparing with " + line.address + "; ports that fail take some 10 s each");
  // Each of its steps has bounds of its own.
  return examine_with(line.address, Deadline::never(), options, by_cm());
}

void print(std::vector<Finding> const& findings, CommandLine const& line) {
  auto const text =
      line.json ? json_of(findings) : report_of(findings, command::look_of_output(), line.verbose);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int doctor(CommandLine const& line) {
  auto const examined = examine_by(line);
  if (!examined) {
    auto const& error = examined.error();
    bool const is_input =
        error == Errc::invalid_argument || error == Errc::not_found || !line.replay_of.empty();
    if (!is_input) print(examine(), line);  // what is so of this process alone
    return complain(error, is_input ? status_of_usage : status_of_failure);
  }
  auto const& findings = examined.value();
  auto const count = [&](FindingLevel level) {
    return std::ranges::count(findings, level, &Finding::level);
  };
  print(findings, line);
  auto const failures = count(FindingLevel::fail) + (line.strict ? count(FindingLevel::warn) : 0);
  return failures == 0 ? 0 : status_of_failure;
}

}  // namespace lend::tools
