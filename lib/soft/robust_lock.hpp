// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock in shared memory that outlives its holder. Any thread of any process that maps it.
//
// There is nothing to repair after a death: what the lock guards becomes valid by single stores
// (layout.hpp), so a thief just carries on. A holder that lives and yet does not let go, stopped by
// a signal or out of its mind, loses the lock too, much later. It may go on one day: so it unlocks
// only what it still holds, and asks is_held_by() before it publishes.
#pragma once

#include "platform.hpp"

#include <atomic>
#include <cstdint>

namespace lend::soft {

/// Who takes locks, and how it learns that another taker is dead.
struct Claimant {
  std::uint32_t instance = 0;  // slot and generation of a context, not 0, below 2^31
  bool (*is_dead)(void const* self, std::uint32_t instance) = nullptr;
  void const* self = nullptr;
  /// Whether a signal or a debugger stopped it. Null: nobody can say.
  bool (*is_stopped)(void const* self, std::uint32_t instance) = nullptr;
};

/// One futex word: 0, or the holder's instance and a bit that says somebody waits.
///
/// The holder is slot and generation: a slot alone would make a dead holder look alive once the
/// slot has a new tenant.
class RobustLock {
 public:
  /// Waits; for one that lives and holds it without an end, `patience` sleeps at most.
  void lock(Claimant const& claimant, std::uint32_t patience = patience_inside) noexcept {
    std::uint32_t free = 0;
    // Acquire pairs with the release in unlock().
    if (!word_.compare_exchange_strong(free, claimant.instance, std::memory_order_acquire,
                                       std::memory_order_relaxed))
      lock_slowly(claimant, patience);
  }

  /// By the claimant with that instance; nothing if the lock was taken from it.
  void unlock(std::uint32_t instance) noexcept {
    if (living_are_robbed && holder() != instance) [[unlikely]]
      return;
    // An exchange, not a store: a store could overwrite a waiter's bit unseen. Pairs with lock().
    if ((word_.exchange(0, std::memory_order_release) & someone_waits) != 0) futex_wake_one(word_);
  }

  /// The instance that holds it, or 0.
  [[nodiscard]] std::uint32_t holder() const noexcept {
    return word_.load(std::memory_order_relaxed) & ~someone_waits;
  }
  /// False once the lock was taken from the claimant.
  [[nodiscard]] bool is_held_by(Claimant const& claimant) const noexcept {
    return holder() == claimant.instance;
  }

 private:
  static constexpr std::uint32_t someone_waits = 1u << 31;

  void lock_slowly(Claimant const&, std::uint32_t patience) noexcept;

  Atomic<std::uint32_t> word_;
};

/// One that is held while bytes are copied, and while other robust locks are waited for.
class OuterRobustLock : public RobustLock {};

class RobustGuard {
 public:
  RobustGuard(RobustLock& lock, Claimant const& claimant) noexcept
      : lock_{lock}, instance_{claimant.instance} {
    lock_.lock(claimant);
  }
  RobustGuard(OuterRobustLock& lock, Claimant const& claimant) noexcept
      : lock_{lock}, instance_{claimant.instance} {
    lock_.lock(claimant, patience_outside);
  }
  ~RobustGuard() { lock_.unlock(instance_); }
  RobustGuard(RobustGuard const&) = delete;
  RobustGuard& operator=(RobustGuard const&) = delete;

 private:
  RobustLock& lock_;
  std::uint32_t instance_;
};

}  // namespace lend::soft
