// SPDX-License-Identifier: MIT OR Apache-2.0
// lend: examines this host, says what an error means, starts programs on the soft device.
#include <base/standard_reserved.hpp>
#include <tools/commands.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace lend::tools {

namespace {

int act(CommandLine const& line) {
  switch (line.command) {
    case Command::doctor: return doctor(line);
    case Command::info: return info(line);
    case Command::bench: return bench(line);
    case Command::run: return run(line);
    case Command::trace: return trace(line);
    case Command::top: return top(line);
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
    // What was asked of a command is in its help.
    char help[] = "help";
    std::array<char*, 2> const asked{help, count > 1 ? words[1] : help};
    bool const is_of_command =
        count > 1 && std::string_view{words[1]} != help && parse(asked).has_value();
    std::fprintf(stderr, "`lend %s` says more\n",
                 is_of_command ? (std::string{words[1]} + " --help").c_str() : help);
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
