// SPDX-License-Identifier: MIT OR Apache-2.0
// lend trace
#include <tools/commands.hpp>
#include <tools/following.hpp>
#include <tools/timeline.hpp>
#include <tools/until_signal.hpp>

#include <chrono>
#include <cstdio>

namespace lend::tools {

namespace {

constexpr std::chrono::milliseconds between_looks{100};

int follow(CommandLine const& line) {
  Follower follower{line.paths};
  UntilSignal const signal;
  for (bool is_last = false;; is_last = signal.comes_within(between_looks)) {
    auto const text = follower.look();
    if (text.has_error()) return complain(text.error(), status_of_usage);
    std::fwrite(text.value().data(), 1, text.value().size(), stdout);
    if (std::fflush(stdout) != 0) {
      std::perror("lend: cannot write");
      return status_of_failure;
    }
    if (is_last || follower.is_over()) return 0;
  }
}

}  // namespace

int trace(CommandLine const& line) {
  if (line.follow) return follow(line);
  auto const recordings = read_recordings(line.paths);
  if (recordings.has_error()) return complain(recordings.error(), status_of_usage);
  auto const timeline = timeline_of(recordings.value());
  auto const text = line.json ? json_of(timeline) : text_of(timeline);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace lend::tools
