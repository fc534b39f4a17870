// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock in shared memory that outlives its holder. Any thread of any process that maps it.
//
// A process that takes the lock over from a dead holder need not know it: guarded data becomes
// valid by single stores (layout.hpp). The next holder completes what the dead one left unfinished:
// the count of a completion (completion_ring.cpp), a claim (claims.hpp). The lock is taken over
// only from a dead holder: a living one may continue at any moment and write data that it no longer
// owns.
#pragma once

#include <soft/platform/platform.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace lend::soft {

/// The identity of a lock's taker, and how it learns that another taker is dead.
struct Claimant {
  std::uint32_t instance = 0;  // slot and generation of a context, not 0, below 2^31
  bool (*is_dead)(void const* self, std::uint32_t instance) = nullptr;
  void const* self = nullptr;
};

/// One futex word: 0, or the holder's instance and a bit that says that a thread waits.
///
/// The holder is slot and generation: with the slot alone a dead holder would seem alive once the
/// slot is used again.
class RobustLock {
 public:
  void lock(Claimant const& claimant) noexcept {
    std::uint32_t free = 0;
    // Acquire pairs with the release in unlock().
    if (!word_.compare_exchange_strong(free, claimant.instance, std::memory_order_acquire,
                                       std::memory_order_relaxed))
      (void)lock_slowly(claimant, Patience::endless);
  }
  /// False: it did not become free within milliseconds and its holder is alive, or a process that
  /// maps the word pretends so.
  [[nodiscard]] bool lock_in_time(Claimant const& claimant) noexcept {
    if (try_lock(claimant)) [[likely]]
      return true;
    return lock_slowly(claimant, Patience::bounded);
  }
  /// False: it is held, or its holder died.
  [[nodiscard]] bool try_lock(Claimant const& claimant) noexcept {
    std::uint32_t free = 0;
    // Acquire pairs with the release in unlock().
    return word_.compare_exchange_strong(free, claimant.instance, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  [[gnu::always_inline]] inline void unlock() noexcept {
    if (!unlock_quietly()) wake_one();
  }
  /// False: a thread waits, and the caller is to call wake_one().
  [[nodiscard, gnu::always_inline]] inline bool unlock_quietly() noexcept {
    // An exchange, not a store: a store could overwrite a waiter's bit unseen. Pairs with lock().
    return (word_.exchange(0, std::memory_order_release) & someone_waits) == 0;
  }
  void wake_one() noexcept { futex_wake_one(word_); }

  /// The instance that holds it, or 0.
  [[nodiscard]] std::uint32_t holder() const noexcept {
    return word_.load(std::memory_order_relaxed) & ~someone_waits;
  }

 private:
  static constexpr std::uint32_t someone_waits = 1u << 31;

  enum class Patience : bool { endless, bounded };
  [[nodiscard]] bool lock_slowly(Claimant const&, Patience) noexcept;

  Atomic<std::uint32_t> word_;
};

class RobustGuard {
 public:
  RobustGuard(RobustLock& lock, Claimant const& claimant) noexcept : lock_{lock} {
    lock_.lock(claimant);
  }
  /// For a lock that the caller has taken.
  RobustGuard(RobustLock& lock, std::adopt_lock_t) noexcept : lock_{lock} {}
  [[gnu::always_inline]] ~RobustGuard() { lock_.unlock(); }
  RobustGuard(RobustGuard const&) = delete;
  RobustGuard& operator=(RobustGuard const&) = delete;

 private:
  RobustLock& lock_;
};

}  // namespace lend::soft
