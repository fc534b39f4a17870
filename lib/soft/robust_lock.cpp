// SPDX-License-Identifier: MIT OR Apache-2.0
// The slow half of the robust lock: spin, sleep on the futex, steal from the dead.
#include "robust_lock.hpp"

namespace lend::soft {
namespace {

/// Whether the lock may be taken from its holder.
bool is_forfeit(Claimant const& claimant, std::uint32_t holder, std::uint32_t doubts,
                std::uint32_t patience) noexcept {
  if (holder != claimant.instance && claimant.is_dead(claimant.self, holder)) return true;
  if (doubts >= patience) return true;
  return doubts >= patience_with_stopped && claimant.is_stopped != nullptr &&
         claimant.is_stopped(claimant.self, holder);
}

}  // namespace

void RobustLock::lock_slowly(Claimant const& claimant, std::uint32_t patience) noexcept {
  auto const taken = claimant.instance | someone_waits;
  for (int i = 0; i < lock_spins; ++i) {
    std::uint32_t free = 0;
    if (word_.load(std::memory_order_relaxed) == 0 &&
        word_.compare_exchange_weak(free, claimant.instance, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return;
    pause();
  }
  // From here on the word is taken with the bit set: others may sleep behind us, and only the next
  // unlock() wakes them.
  auto seen = word_.load(std::memory_order_relaxed);
  std::uint32_t doubts = 0;  // sleeps in a row, at the end of which nothing had changed
  for (;;) {
    if (seen == 0) {
      if (word_.compare_exchange_weak(seen, taken, std::memory_order_acquire,
                                      std::memory_order_relaxed))
        return;
      continue;
    }
    if ((seen & someone_waits) == 0) {
      if (!word_.compare_exchange_weak(seen, seen | someone_waits, std::memory_order_relaxed))
        continue;
      seen |= someone_waits;
      doubts = 0;  // the holder has changed, or let go and come back
    }
    bool const is_late = futex_wait(word_, seen);
    if (is_late && word_.load(std::memory_order_relaxed) == seen) {
      if (is_forfeit(claimant, seen & ~someone_waits, ++doubts, patience) &&
          word_.compare_exchange_strong(seen, taken, std::memory_order_acquire,
                                        std::memory_order_relaxed))
        return;
    } else {
      doubts = 0;
    }
    seen = word_.load(std::memory_order_relaxed);
  }
}

}  // namespace lend::soft
