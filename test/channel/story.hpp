// SPDX-License-Identifier: MIT OR Apache-2.0
// What the tests of stories have in common. One thread.
#pragma once

#include <lend/soft/faults.hpp>

#include <cstdint>
#include <optional>
#include <utility>

#include "support/stories.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

inline constexpr std::uint32_t story_depth = 8;

/// Two ends on the soft device, which give up soon, with memory for both.
struct Story {
  static TwoEnds two_ends(std::optional<std::uint8_t> receiver_not_ready_retries) {
    Context context = must(open_device(DeviceChoice::soft()));
    ProtectionDomain domain = must(context.allocate_protection_domain());
    ChannelOptions options = options_with_depth(story_depth);
    options.queue_pair.connection.ack_timeout = 1ms;
    options.queue_pair.connection.ack_retries = 1;
    options.queue_pair.receiver_not_ready_retries = receiver_not_ready_retries;
    PreparedChannel one = must(prepare_channel(domain, options));
    PreparedChannel other = must(prepare_channel(domain, options));
    Endpoint const endpoint = one.endpoint();
    Channel a = must(std::move(one).handshake(other.endpoint()));
    Channel b = must(std::move(other).handshake(endpoint));
    return {context, domain, std::move(a), std::move(b)};
  }

  TwoEnds ends = two_ends(1);
  MemoryRegion memory = must(ends.domain.allocate(4096));
};

}  // namespace lend::test
