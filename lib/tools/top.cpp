// SPDX-License-Identifier: MIT OR Apache-2.0
// lend top
#include <base/unique_fd.hpp>
#include <command/terminal.hpp>
#include <tools/commands.hpp>
#include <tools/recording.hpp>
#include <tools/top_table.hpp>
#include <tools/until_signal.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

namespace lend::tools {

namespace {

/// A file that was removed meanwhile is left out.
Result<Looked> look_at(std::vector<std::string> const& paths) {
  Looked looked;
  for (auto const& path : paths) {
    LEND_TRY(names, files_of(path, observe::counts_ending));
    for (auto const& name : names) {
      auto read = observe::read_counts(name);
      if (read.has_error() && read.error() == Errc::not_found && name != path) continue;
      LEND_TRY(counts, std::move(read));
      looked.emplace(name, std::move(counts));
    }
  }
  return looked;
}

bool is_any_running(Looked const& looked) {
  return std::ranges::any_of(looked, [](auto const& each) { return each.second.is_running; });
}

int print(std::string const& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return 0;
  std::perror("lend: cannot write");
  return status_of_failure;
}

/// A reader of `path` sees the old text or the new one, whole. Source: rename(2).
int replace(std::string const& path, std::string const& text) {
  auto const unfinished = path + ".new";
  std::FILE* const file = std::fopen(unfinished.c_str(), "we");
  bool is_written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) is_written = std::fclose(file) == 0 && is_written;
  if (is_written && std::rename(unfinished.c_str(), path.c_str()) == 0) return 0;
  auto const why = Error::from_errno("writing of " + path, errno);
  ::unlink(unfinished.c_str());
  return complain(why, status_of_failure);
}

int export_text(CommandLine const& line) {
  UntilSignal const signal;
  for (std::uint64_t times = 1;; ++times) {
    auto const looked = look_at(line.paths);
    if (looked.has_error()) return complain(looked.error(), status_of_usage);
    auto const text = text_of(sum_of(looked.value()), *line.top.format);
    int const status = line.top.write_to.empty() ? print(text) : replace(line.top.write_to, text);
    bool const is_last =
        line.top.write_to.empty() ? times >= line.top.count.value_or(1) : times == line.top.count;
    if (status != 0 || is_last || signal.comes_within(line.top.every)) return status;
  }
}

int show_table(CommandLine const& line) {
  UntilSignal const signal;
  bool const is_terminal = ::isatty(STDOUT_FILENO) == 1;
  auto before = look_at(line.paths);
  if (before.has_error()) return complain(before.error(), status_of_usage);
  auto looked_at = std::chrono::steady_clock::now();
  for (std::uint64_t times = 1;; ++times) {
    bool const is_last = signal.comes_within(line.top.every) ||
                         (line.top.count ? times >= *line.top.count : !is_terminal);
    auto now = look_at(line.paths);
    if (now.has_error()) return complain(now.error(), status_of_usage);
    auto const then = std::exchange(looked_at, std::chrono::steady_clock::now());
    std::chrono::duration<double> const seconds = looked_at - then;
    auto text = top_table(before.value(), now.value(), seconds.count(), command::look_of_output());
    // Source: ECMA-48, CUP and ED.
    if (is_terminal) text = "\x1b[H\x1b[J" + text;
    int const status = print(text);
    bool const is_over = is_terminal && !line.top.count && !is_any_running(now.value());
    if (status != 0 || is_last || is_over) return status;
    before = std::move(now);
  }
}

}  // namespace

int top(CommandLine const& line) {
  return line.top.format ? export_text(line) : show_table(line);
}

}  // namespace lend::tools
