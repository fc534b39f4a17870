// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels that record, and what they recorded. One thread.
#pragma once

#include <observe/recorder.hpp>
#include <tools/recording.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/new_directory.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

inline ChannelOptions recording_in(std::string const& directory) {
  ChannelOptions options;
  options.observe.record_in = directory;
  return options;
}

/// A message of eight bytes from a to b.
inline void exchange(TwoEnds& ends, MemoryRegion& memory) {
  PollingScope scope{ends.b};
  auto received = must(scope.post_receive(memory.scatter(64, 64)));
  must(ends.a.send(memory.gather(0, 8)));
  must(received.wait());
  must(scope.finish());
}

/// In the order of their channels.
inline std::vector<tools::Recording> recordings_in(std::string const& directory) {
  std::array const paths{directory};
  auto all = must(tools::read_recordings(paths));
  std::ranges::sort(all, {}, [](auto const& one) { return one.header.channel; });
  return all;
}

}  // namespace lend::test
