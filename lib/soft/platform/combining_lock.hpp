// SPDX-License-Identifier: MIT OR Apache-2.0
// A combining lock between the threads of one process, for work that one of them does for all: a
// thread that finds it held does not wait, but leaves its request to the holder, which executes it
// before it unlocks.
#pragma once

#include <soft/platform/pause.hpp>
#include <soft/platform/platform.hpp>

#include <atomic>
#include <cstdint>

namespace lend::soft {

class CombiningLock {
 public:
  void lock() noexcept {
    spin_until([this] { return try_lock(); });
  }
  /// False: another thread holds it. Waits for nothing and leaves no request.
  [[nodiscard]] bool try_lock() noexcept {
    std::uint32_t seen = is_free;
    // Acquire pairs with the release in unlock().
    return word_.load(std::memory_order_relaxed) == is_free &&
           word_.compare_exchange_strong(seen, is_held, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  /// False: another thread holds it and will execute the request.
  [[nodiscard]] bool lock_or_leave() noexcept {
    std::uint32_t seen = is_free;
    // Acquire and release, pairing with unlock() both ways: the holder sees the data of the
    // request. Always a store, even of the same value, because the holder reads it.
    while (!word_.compare_exchange_weak(seen, seen == is_free ? is_held : has_errand,
                                        std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
    return seen == is_free;
  }
  /// False, and still held, if a thread left a request: execute it and try again.
  [[nodiscard]] bool unlock() noexcept {
    std::uint32_t seen = is_held;
    if (word_.compare_exchange_strong(seen, is_free, std::memory_order_release,
                                      std::memory_order_relaxed))
      return true;
    // Acquire pairs with lock_or_leave().
    word_.exchange(is_held, std::memory_order_acquire);
    return false;
  }

 private:
  static constexpr std::uint32_t is_free = 0;
  static constexpr std::uint32_t is_held = 1;
  static constexpr std::uint32_t has_errand = 2;  // and is held

  Atomic<std::uint32_t> word_{};
};

}  // namespace lend::soft
