// SPDX-License-Identifier: MIT OR Apache-2.0
// Settling claims. Whether the receive was completed is the owner's to say: it knows what it
// polled, and finds this completion behind the one that the dead published, if he did.
#include <soft/segment/claims.hpp>

#include <soft/segment/completion_ring.hpp>
#include <soft/segment/pool_ring.hpp>

#include <mutex>

namespace lend::soft {

bool settle_claim(Segment& segment, SharedQueuePair& target, std::uint32_t number,
                  ibv_wc_status status, Claimant const& claimant, WakePipes& wake_pipes) noexcept {
  auto word = target.claim.get();
  if (word == 0) return true;
  bool const is_pooled = target.pool.get() != 0;
  if (is_pooled) {
    auto const ring = pool_ring_of(segment, target);
    word = 0;
    if (ring.order != nullptr) {
      if (!ring.pool->lock.lock_in_time(claimant)) return false;
      RobustGuard const guard{ring.pool->lock, std::adopt_lock};
      word = lost_claim(ring, target, number);
    }
  }
  if (word != 0) {
    ReceiveEnd end{};
    end.queue_pair = number;
    end.epoch = target.epoch.get();
    end.receive = static_cast<std::uint32_t>(word - 1);  // of a queue pair's own
    end.status = static_cast<std::uint8_t>(status);
    end.kind = ReceiveKind::abandoned;
    end.inline_length = sizeof word;
    end.bytes[0] = word;
    if (push_receive_end(segment, target.completion_queue.get(), end, claimant, wake_pipes) !=
        Pushed::yes)
      return false;
    if (!is_pooled) target.receive_tail.store(word, std::memory_order_relaxed);
  }
  death_point();
  target.claim.set(0);
  return true;
}

}  // namespace lend::soft
