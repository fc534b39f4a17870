// SPDX-License-Identifier: MIT OR Apache-2.0
// How many requests the queues of a channel take, and have. The thread of the channel.
#pragma once

#include <lend/base/work_failure.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::channel {

/// The send queue, which sends, writes, reads and atomic operations share, and the receive queue.
class QueueRoom {
 public:
  QueueRoom(std::uint32_t send_depth, std::uint32_t receive_depth) noexcept
      : depth_{send_depth, receive_depth} {}

  [[nodiscard]] bool has(Operation operation) const noexcept {
    auto const queue = queue_of(operation);
    return taken_[queue] < depth_[queue];
  }
  [[nodiscard]] std::uint32_t taken(Operation operation) const noexcept {
    return taken_[queue_of(operation)];
  }
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_[0] + taken_[1]; }

  void take(Operation operation, std::uint32_t count) noexcept {
    taken_[queue_of(operation)] += count;
  }
  void give_back(Operation operation) noexcept { --taken_[queue_of(operation)]; }
  /// There is none any more: the channel is broken.
  void close() noexcept { depth_[0] = depth_[1] = 0; }

 private:
  [[nodiscard]] static std::size_t queue_of(Operation operation) noexcept {
    return operation == Operation::receive ? 1 : 0;
  }

  std::uint32_t depth_[2];
  std::uint32_t taken_[2] = {0, 0};
};

}  // namespace lend::channel
