// SPDX-License-Identifier: MIT OR Apache-2.0
// The slow half of the robust lock: spin, sleep on the futex, steal from the dead.
#include "robust_lock.hpp"

#include "pause.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace lend::soft {
namespace {

constexpr int spins = 100;               // about the time of a short critical section
constexpr timespec doubt{0, 1'000'000};  // after 1 ms asleep, ask whether the holder lives

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Not FUTEX_PRIVATE: the word is mapped by several processes.
int futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  auto const result = ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &doubt, nullptr, 0);
  return result == 0 ? 0 : errno;
}

}  // namespace

void RobustLock::lock_slowly(Claimant const& claimant) noexcept {
  auto const taken = claimant.instance | someone_waits;
  for (int i = 0; i < spins; ++i) {
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
    }
    auto const why = futex_wait(word_, seen);
    auto const now = word_.load(std::memory_order_relaxed);
    if (why == ETIMEDOUT && now == seen) {
      auto const holder = seen & ~someone_waits;
      if (holder != claimant.instance && claimant.is_dead(claimant.self, holder) &&
          word_.compare_exchange_strong(seen, taken, std::memory_order_acquire,
                                        std::memory_order_relaxed))
        return;
    }
    seen = word_.load(std::memory_order_relaxed);
  }
}

void RobustLock::wake_one() noexcept {
  ::syscall(SYS_futex, &word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace lend::soft
