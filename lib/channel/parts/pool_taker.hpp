// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes what comes for one channel of a pool, in place of ReceivePool::next(). The thread of the
// set.
#pragma once

#include <cstdint>

namespace lend::channel {

class PoolTaker {
 public:
  /// A message of `bytes` came in this piece: in a poll, which goes on after that. True: the taker
  /// has it until it gives it back. False: it is dropped.
  [[nodiscard]] virtual bool take(std::uint32_t piece, std::uint32_t bytes) noexcept = 0;

 protected:
  PoolTaker() = default;
  ~PoolTaker() = default;
};

}  // namespace lend::channel
