// SPDX-License-Identifier: MIT OR Apache-2.0
#include "holders.hpp"

#include "clock.hpp"
#include "completion_queue.hpp"
#include "queue_pair.hpp"
#include "reason.hpp"
#include "receive_pool.hpp"

#include <cerrno>

namespace lend::soft {

bool await_holders(QueuePair& qp) noexcept {
  auto const& claimant = qp.owner().claimant;
  bool const is_asked_again = qp.is_held.load(std::memory_order_relaxed);
  auto const patience = is_asked_again ? 0 : holders_patience().count();
  auto const end = now() + static_cast<std::uint64_t>(patience);
  RobustLock* const locks[] = {&qp.shared->rx, &qp.receives().shared->lock,
                               qp.pool() != nullptr ? &qp.pool()->shared->lock : nullptr};
  for (auto* const lock : locks) {
    if (lock == nullptr) continue;
    while (!lock->lock_in_time(claimant)) {
      if (now() < end) continue;
      qp.is_held.store(true, std::memory_order_relaxed);
      fail(EBUSY,
           "a living process holds a lock of queue pair 0x%x and does not let go: it was stopped, "
           "perhaps, while it sent; let it go on, or end it",
           qp.qp_num);
      return false;
    }
    lock->unlock();
  }
  qp.is_held.store(false, std::memory_order_relaxed);
  return true;
}

}  // namespace lend::soft
