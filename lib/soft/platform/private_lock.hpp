// SPDX-License-Identifier: MIT OR Apache-2.0
// A lock between the threads of one process, cheaper than a mutex without contention.
#pragma once

#include <soft/platform/pause.hpp>

#include <base/only_thread.hpp>

#include <atomic>

namespace lend::soft {

class PrivateLock {
 public:
  [[gnu::always_inline]] inline void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      await();
  }
  [[nodiscard, gnu::always_inline]] inline bool try_lock() noexcept {
    // Checked by the only thread, too: one that takes it twice, against the rules of verbs, waits
    // forever, as it does beside others.
    if (taken_.load(std::memory_order_relaxed)) return false;
    // Stored nevertheless: a second thread may be created while it is held.
    if (base::is_only_thread()) [[likely]]
      return taken_.store(true, std::memory_order_relaxed), true;
    // Acquire pairs with the release in unlock().
    return !taken_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  [[gnu::noinline]] void await() noexcept {
    spin_until([this] { return try_lock(); });
  }

  std::atomic<bool> taken_{false};
};

}  // namespace lend::soft
