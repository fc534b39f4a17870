// SPDX-License-Identifier: MIT OR Apache-2.0
// What a link is made of, and how many requests it may have. A value.
#pragma once

#include <group/link/message_head.hpp>
#include <group/schedule/long_schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::group {

struct LinkOptions {
  std::uint32_t message_bytes = 0;  // without the head
  std::uint32_t window = 0;
  std::uint32_t greetings = 0;  // where a rank must send first

  /// Receives of a link: those of the window, and three for messages without values. At most two
  /// say what was freed, because each is sent for half a window; one says that the peer has left or
  /// that its group is broken.
  [[nodiscard]] std::uint32_t receives() const noexcept { return window + 3 + greetings; }
  /// Places that messages may take in the send queue: one for each slot, and for 16 that are
  /// written, as many as one poll finds.
  [[nodiscard]] std::uint32_t sends_and_writes() const noexcept { return receives() + 16; }
  [[nodiscard]] std::uint32_t send_depth() const noexcept {
    return sends_and_writes() + 1 + long_buffer_count;  // and the peer's record is read, and values
  }
  [[nodiscard]] std::size_t slot_bytes() const noexcept {
    return sizeof(MessageHead) + message_bytes;
  }
};

}  // namespace lend::group
