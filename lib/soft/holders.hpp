// SPDX-License-Identifier: MIT OR Apache-2.0
// How long what changes or ends a queue pair waits for who is at it. Any thread.
#pragma once

#include <chrono>

namespace lend::soft {

struct QueuePair;

/// 10 s, several times as long as a copy of the longest message takes; or what a test that cannot
/// wait for so long has put there, before there is another thread.
[[nodiscard]] inline std::chrono::nanoseconds& holders_patience() noexcept {
  static constinit std::chrono::nanoseconds patience = std::chrono::seconds{10};
  return patience;
}

/// Waits until no other process holds a lock of the queue pair's. False, with errno EBUSY and a
/// reason: one that lives does not let go, most likely since it was stopped in the middle of a
/// copy. Who was waited for in vain before is not waited for again.
[[nodiscard]] bool await_holders(QueuePair&) noexcept;

}  // namespace lend::soft
