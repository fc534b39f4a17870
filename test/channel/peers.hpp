// SPDX-License-Identifier: MIT OR Apache-2.0
// A MultiChannel and its peers in one process, on one thread.
#pragma once

#include "support/two_ends.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lend::test {

constexpr std::size_t piece = 64;

/// `count` peers; what they send and receive lies in `theirs`, at piece i for peer i.
struct PeerChannels {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion own = must(domain.allocate(4096));
  MemoryRegion theirs = must(domain.allocate(4096));
  WaitSet set = must(WaitSet::create(context));
  std::vector<Channel> far{};
  MultiChannel near;

  explicit PeerChannels(std::uint32_t count, std::uint32_t depth = 8)
      : near{make(count, options_with_depth(depth))} {}

  MultiChannel make(std::uint32_t count, ChannelOptions options) {
    std::vector<Channel> channels;
    options.wait_set = &set;
    for (std::uint32_t i = 0; i < count; ++i) {
      options.tag = i;
      auto [one, other] = connected(domain, options, options_with_depth(8));
      channels.push_back(std::move(one));
      far.push_back(std::move(other));
    }
    return must(MultiChannel::adopt(std::move(channels)));
  }
  /// The peer's next receive, into its piece.
  PendingWork expect(PollingScope& scope, std::uint32_t peer) {
    return must(scope.post_receive(theirs.scatter(peer * piece, piece)));
  }
};

}  // namespace lend::test
