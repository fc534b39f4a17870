// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line of lend-run.
#include <base/printable.hpp>
#include <command/command_line.hpp>
#include <command/version.hpp>
#include <run/options.hpp>

#include <charconv>
#include <limits>
#include <system_error>

namespace lend::run {

namespace {

constexpr command::About about_lend_run{
    "lend-run -n N [OPTION…] [--] PROGRAM [ARGUMENT…]",
    "Starts PROGRAM as N ranks on this host, which meet by lend::Group::join(). Each line of "
    "output begins with its rank, as in [3]. Rank 0 reads the standard input, unless that is a "
    "terminal. If the output of lend-run is a terminal, that of each rank is one, too. Signals are "
    "passed on to all ranks. When a rank fails and is not restarted, the others get SIGTERM, and "
    "SIGKILL after 5 s. All processes that the ranks started end with lend-run, even if it is "
    "killed.",
    "Example:\n"
    "  lend-run -n 4 --timeout 10m ./program\n"
    "\n"
    "Exit status: that of the first rank that failed (128 + N for signal N), or 0; 2 for a wrong "
    "command line, 124 after --timeout, 125 if lend-run itself failed or output was lost, 126 or "
    "127 if PROGRAM cannot be started."};

Error wrong(std::string reason) {
  return {Errc::invalid_argument, std::move(reason)};
}

/// None: it is none from `least` to `most`.
std::optional<std::uint32_t> number_in(std::string_view text, std::uint32_t least,
                                       std::uint32_t most) {
  std::uint32_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number && value >= least && value <= most ? std::optional{value} : std::nullopt;
}

}  // namespace

Result<Options> parse(std::span<char* const> arguments) {
  Options options;
  auto const take_ranks = [&](std::string const& text) -> Result<void> {
    auto const ranks = number_in(text, 1, ranks_max);
    if (!ranks)
      return wrong("-n takes a number of ranks from 1 to " + std::to_string(ranks_max) + ", not " +
                   base::shown(text));
    options.ranks = *ranks;
    return success();
  };
  auto const take_restarts = [&](std::string const& text) -> Result<void> {
    auto const restarts = number_in(text, 0, std::numeric_limits<std::uint32_t>::max());
    if (!restarts) return wrong("--restarts takes a number, not " + base::shown(text));
    options.restarts = *restarts;
    return success();
  };
  auto const take_timeout = [&](std::string const& text) -> Result<void> {
    options.timeout = command::time_in(text);
    if (options.timeout) return success();
    return wrong("--timeout takes a time such as 500ms, 30s, 5m or 1h, not " + base::shown(text));
  };
  bool no_prefix = false;
  command::CommandLine line{about_lend_run};
  line.value("-n,--np", "N", take_ranks, "number of ranks, 1 to " + std::to_string(ranks_max))
      .value("--restarts", "K", take_restarts,
             "restarts failed ranks, K times in all, until a rank has finished")
      .value("--timeout", "D", take_timeout, "ends the ranks after D: 500ms, 30s, 5m or 1h")
      .flag("--pty", options.pty,
            "gives each rank a terminal for its output, also where lend-run has none")
      .flag("--no-prefix", no_prefix, "prints lines without their rank")
      .path("--output", "DIRECTORY", options.output_in,
            "writes the output of rank R to DIRECTORY/rank-R.log, and prints none")
      .flag("--bind", options.binds,
            "binds each rank to an equal part of the CPUs that lend-run may use")
      .version(command::version_of("lend-run"));
  auto split = line.split_off_program(arguments);
  LEND_TRY(text, line.parse(std::move(split.own)));
  if (text) {
    options.text = *std::move(text);
    return options;
  }
  options.has_prefix = !no_prefix;
  if (options.pty && !options.output_in.empty())
    return wrong("--pty is for output that lend-run passes on: leave out --output");
  if (options.ranks == 0) return wrong("-n N is missing");
  if (split.program.empty()) return wrong("PROGRAM is missing");
  options.program.assign(split.program.begin(), split.program.end());
  options.program.push_back(nullptr);
  return options;
}

}  // namespace lend::run
