// SPDX-License-Identifier: MIT OR Apache-2.0
// The slow half of the robust lock: spin, sleep on the futex, steal from the dead, or give up.
#include <soft/platform/robust_lock.hpp>

namespace lend::soft {

bool RobustLock::lock_slowly(Claimant const& claimant, Patience patience) noexcept {
  auto const taken = claimant.instance | someone_waits;
  for (int i = 0; i < lock_spins; ++i) {
    std::uint32_t free = 0;
    if (word_.load(std::memory_order_relaxed) == 0 &&
        word_.compare_exchange_weak(free, claimant.instance, std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return true;
    pause();
  }
  // From here on the word is taken with the bit set: others may sleep behind us, and only the next
  // unlock() wakes them.
  auto seen = word_.load(std::memory_order_relaxed);
  int doubts = 0;
  for (int rounds = 0;; ++rounds) {
    if (seen == 0) {
      if (word_.compare_exchange_weak(seen, taken, std::memory_order_acquire,
                                      std::memory_order_relaxed))
        return true;
      continue;
    }
    if ((seen & someone_waits) == 0) {
      if (!word_.compare_exchange_weak(seen, seen | someone_waits, std::memory_order_relaxed))
        continue;
      seen |= someone_waits;
    }
    // Here, for the bit is set: should we have taken another's wake-up, the next unlock() makes up
    // for it. Rounds are counted too, because a word that changes all the time lets no thread
    // sleep.
    if (patience == Patience::bounded && (doubts >= lock_doubts_max || rounds >= lock_rounds_max))
      return false;
    bool const is_late = futex_wait(word_, seen);
    if (is_late) ++doubts;
    if (is_late && word_.load(std::memory_order_relaxed) == seen) {
      auto const holder = seen & ~someone_waits;
      if (holder != claimant.instance && claimant.is_dead(claimant.self, holder) &&
          word_.compare_exchange_strong(seen, taken, std::memory_order_acquire,
                                        std::memory_order_relaxed))
        return true;
    }
    seen = word_.load(std::memory_order_relaxed);
  }
}

}  // namespace lend::soft
