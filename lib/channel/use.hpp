// SPDX-License-Identifier: MIT OR Apache-2.0
// How a channel notices that two threads use it. Any thread.
#pragma once

#include <atomic>

namespace lend {

/// A call of the user's, from its first touch of the channel to its last. Stops the process when
/// two overlap: no error value could mend what two threads did to one channel. Two that begin in
/// the same instant are told at the end of one of them.
class ChannelUse {
 public:
  /// Of one channel: the thread inside, or null.
  using User = std::atomic<void const*>;

  explicit ChannelUse(User& user) noexcept : user_{user} {
    // Relaxed throughout: this publishes nothing, and what it guards is not shared.
    if (user_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      stop_for_two_threads();
    user_.store(this_thread(), std::memory_order_relaxed);
  }
  ChannelUse(ChannelUse const&) = delete;
  ChannelUse& operator=(ChannelUse const&) = delete;
  ~ChannelUse() {
    if (user_.load(std::memory_order_relaxed) != this_thread()) [[unlikely]]
      stop_for_two_threads();
    user_.store(nullptr, std::memory_order_relaxed);
  }

 private:
  // Its own address would keep the guard in memory.
  static void const* this_thread() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
    return __builtin_thread_pointer();  // one instruction; compilers lack it elsewhere
#else
    static thread_local char one;
    return &one;
#endif
  }
  [[noreturn]] static void stop_for_two_threads() noexcept;
  User& user_;
};

}  // namespace lend
