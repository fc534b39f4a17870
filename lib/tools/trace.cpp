// SPDX-License-Identifier: MIT OR Apache-2.0
// lend trace
#include <tools/commands.hpp>
#include <tools/timeline.hpp>

#include <cstdio>

namespace lend::tools {

int trace(CommandLine const& line) {
  auto const recordings = read_recordings(line.paths);
  if (recordings.has_error()) return complain(recordings.error(), status_of_usage);
  auto const timeline = timeline_of(recordings.value());
  auto const text = line.json ? json_of(timeline) : text_of(timeline);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace lend::tools
