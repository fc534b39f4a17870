// SPDX-License-Identifier: MIT OR Apache-2.0
// How many requests the queues of a channel take, and have. The thread of the channel.
#pragma once

#include <lend/base/work_failure.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lend::channel {

/// The send queue, which sends, writes, reads and atomic operations share, and the receive queue.
class QueueRoom {
 public:
  QueueRoom(std::uint32_t send_depth, std::uint32_t receive_depth) noexcept
      : depth_{send_depth, receive_depth}, most_{send_depth, receive_depth} {}

  [[nodiscard]] bool has(Operation operation) const noexcept {
    auto const queue = queue_of(operation);
    return taken_[queue] < depth_[queue];
  }
  /// The same, but false where one more would be more than note_most() knows of.
  [[nodiscard]] bool has_as_before(Operation operation) const noexcept {
    auto const queue = queue_of(operation);
    return taken_[queue] < most_[queue];
  }
  [[nodiscard]] std::uint32_t outstanding(Operation operation) const noexcept {
    return taken_[queue_of(operation)];
  }
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return taken_[0] + taken_[1]; }

  void take(Operation operation, std::uint32_t count) noexcept {
    taken_[queue_of(operation)] += count;
  }
  void give_back(Operation operation, std::uint32_t count = 1) noexcept {
    taken_[queue_of(operation)] -= count;
  }
  /// There is none any more: the channel is broken.
  void close() noexcept { depth_[0] = depth_[1] = most_[0] = most_[1] = 0; }

  /// has_as_before() asks note_most() from here on, else it is has().
  void forget_most() noexcept { most_[0] = most_[1] = 0; }
  void note_most(Operation operation) noexcept {
    auto const queue = queue_of(operation);
    most_[queue] = std::max(most_[queue], std::min(taken_[queue], depth_[queue]));
  }

 private:
  [[nodiscard]] static std::size_t queue_of(Operation operation) noexcept {
    return operation == Operation::receive ? 1 : 0;
  }

  std::uint32_t depth_[2];
  std::uint32_t most_[2];
  std::uint32_t taken_[2] = {0, 0};
};

}  // namespace lend::channel
