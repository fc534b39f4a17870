// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock in shared memory that outlives its holder. Any thread of any process that maps it.
//
// A thief need not know that it is one: what the lock guards becomes valid by single stores
// (layout.hpp). What the dead left undone after one, whoever is next makes good: the count of a
// completion (completion_ring.cpp), a claim (claims.hpp). It is taken from the dead only: a holder
// that lives may go on at any moment, and would then write what is no longer its own.
#pragma once

#include "platform.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace lend::soft {

/// Who takes locks, and how it learns that another taker is dead.
struct Claimant {
  std::uint32_t instance = 0;  // slot and generation of a context, not 0, below 2^31
  bool (*is_dead)(void const* self, std::uint32_t instance) = nullptr;
  void const* self = nullptr;
};

/// One futex word: 0, or the holder's instance and a bit that says somebody waits.
///
/// The holder is slot and generation: a slot alone would make a dead holder look alive once the
/// slot has a new tenant.
class RobustLock {
 public:
  void lock(Claimant const& claimant) noexcept {
    std::uint32_t free = 0;
    // Acquire pairs with the release in unlock().
    if (!word_.compare_exchange_strong(free, claimant.instance, std::memory_order_acquire,
                                       std::memory_order_relaxed))
      (void)lock_slowly(claimant, Patience::endless);
  }
  /// False: it did not come free within milliseconds, and its holder lives, or whoever maps the
  /// word wrote that.
  [[nodiscard]] bool lock_in_time(Claimant const& claimant) noexcept {
    std::uint32_t free = 0;
    // Acquire pairs with the release in unlock().
    if (word_.compare_exchange_strong(free, claimant.instance, std::memory_order_acquire,
                                      std::memory_order_relaxed)) [[likely]]
      return true;
    return lock_slowly(claimant, Patience::bounded);
  }

  void unlock() noexcept {
    // An exchange, not a store: a store could overwrite a waiter's bit unseen. Pairs with lock().
    if ((word_.exchange(0, std::memory_order_release) & someone_waits) != 0) futex_wake_one(word_);
  }

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
  /// Of a lock that the caller has taken.
  RobustGuard(RobustLock& lock, std::adopt_lock_t) noexcept : lock_{lock} {}
  ~RobustGuard() { lock_.unlock(); }
  RobustGuard(RobustGuard const&) = delete;
  RobustGuard& operator=(RobustGuard const&) = delete;

 private:
  RobustLock& lock_;
};

}  // namespace lend::soft
