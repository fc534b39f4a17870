// SPDX-License-Identifier: MIT OR Apache-2.0
// What is measured, and one end of the channel that it is measured on. One thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/remote_region.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace lend::tools {

inline constexpr std::size_t end_bytes = std::size_t{8}
                                         << 20;         ///< at least, of each region of an end
inline constexpr std::size_t incoming = end_bytes / 2;  ///< where receives land
inline constexpr std::size_t small_bytes_max = incoming / 4;  ///< of messages that fit there
inline constexpr std::size_t message_bytes_max = std::size_t{1} << 30;
/// Of larger messages as many are under way at once.
inline constexpr std::size_t large_ahead = 2;

/// Of the local region, for messages of up to `largest` bytes: one that is sent, others that come.
[[nodiscard]] constexpr std::size_t local_bytes_for(std::size_t largest) {
  return largest <= small_bytes_max ? end_bytes
                                    : std::max(incoming, largest) + large_ahead * largest;
}
/// Of the exposed region.
[[nodiscard]] constexpr std::size_t exposed_bytes_for(std::size_t largest) {
  return std::max(end_bytes, largest);
}

struct End {
  bool near;             ///< measures; the other end answers
  bool one_core;         ///< yields the CPU while it waits: the other end needs it
  MemoryRegion memory;   ///< local
  MemoryRegion exposed;  ///< the peer may write and read here
  Channel channel;
  RemoteRegion remote;  ///< the peer's `exposed`
  /// Returns when both ends have called it. Sleeps, so that neither takes the other's CPU.
  std::function<Result<void>()> meet;
  /// A message without a receive would end the connection: streams of sends wait for credits.
  bool has_credits = false;
};

struct Load {
  std::string_view operation{};  ///< send, write or read
  std::string_view via{};        ///< unsafe, scoped, blocking (rounds only) or batch (streams only)
  std::size_t bytes = 0;         ///< of a message: 1 to message_bytes_max
  std::uint64_t count = 0;       ///< of rounds or messages

  /// Messages that may be under way at once, each in bytes of its own: 1 MiB of them, that caches
  /// hold; from 4 to 128, but of large ones 2.
  [[nodiscard]] std::uint32_t receives_ahead() const {
    constexpr std::size_t together = std::size_t{1} << 20;
    if (bytes > small_bytes_max) return large_ahead;
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(together / bytes, 4, 128));
  }
  /// Where message number `message` arrives.
  [[nodiscard]] std::size_t lane(std::uint64_t message) const {
    return std::max(incoming, bytes) + message % receives_ahead() * bytes;
  }
};

}  // namespace lend::tools
