// SPDX-License-Identifier: MIT OR Apache-2.0
// lend: examines this host, says what an error means, starts programs on the soft device.
#include <base/standard_reserved.hpp>
#include <tools/commands.hpp>

#include <cstdio>

namespace lend::tools {

namespace {

int act(CommandLine const& line) {
  switch (line.command) {
    case Command::doctor: return doctor(line);
    case Command::info: return info(line);
    case Command::bench: return bench(line);
    case Command::run: return run(line);
    case Command::trace: return trace(line);
    case Command::explain: return explain(line);
    case Command::text: std::fputs(line.text.c_str(), stdout); return 0;
  }
  return status_of_usage;
}

}  // namespace

}  // namespace lend::tools

int main(int count, char* words[]) {
  using namespace lend::tools;
  lend::base::StandardReserved const reserved;
  auto const line = parse(std::span{words, static_cast<std::size_t>(count)}.subspan(1));
  if (line.has_error()) {
    auto const status = complain(line.error(), status_of_usage);
    std::fputs("`lend help` says more\n", stderr);
    return status;
  }
  auto const status = act(line.value());
  // A reader of the findings must not take a part for all.
  if (std::fflush(stdout) != 0) {
    std::perror("lend: cannot write");
    return status_of_failure;
  }
  return status;
}
