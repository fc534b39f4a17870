// SPDX-License-Identifier: MIT OR Apache-2.0
// How a call enters a channel: by a weak reference, and one thread at a time. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/channel/pending_work.hpp>
#include <verbs/device/forking.hpp>

#include <atomic>
#include <cstdint>

namespace lend::channel {

/// One per existing channel; its memory is reused for later channels and never freed, so that a
/// handle can check it at any time. The epoch changes when a channel moves in or out.
struct ChannelAnchor {
  std::atomic<std::uint64_t> epoch{0};  // odd: a channel exists here
  ChannelState* state = nullptr;
  ChannelAnchor* next_free = nullptr;
};

/// A reference to `state`; with a null anchor without memory.
[[nodiscard]] ChannelReference acquire_anchor(ChannelState* state) noexcept;
void release_anchor(ChannelAnchor* anchor) noexcept;
/// Invalidates the references to a channel that ends. Takes no lock.
void leave_anchor(ChannelAnchor* anchor) noexcept;

/// The channel of `reference`; null once it is gone.
[[nodiscard]] inline ChannelState* living(ChannelReference reference) noexcept {
  ChannelAnchor* const anchor = reference.anchor;
  if (anchor == nullptr) return nullptr;
  // Acquire: pairs with the release in acquire_anchor().
  if (anchor->epoch.load(std::memory_order_acquire) != reference.epoch) return nullptr;
  ChannelState* const state = anchor->state;
  if (state == nullptr) __builtin_unreachable();  // so that callers do not check again
  return state;
}

/// A call of the program, from its first to its last access to a channel. Stops the process if two
/// overlap: no error value could repair what two threads did to one channel. Two that begin at the
/// same instant are detected at the end of one of them.
class ChannelUse {
 public:
  /// For the channels of one progress: the thread inside, or null.
  struct User {
    std::atomic<void const*> thread{nullptr};
    verbs::Inheritance origin{};
  };

  explicit ChannelUse(User& user) noexcept : user_{user.thread} {
    // Relaxed throughout: this publishes nothing, and what it guards is not shared. A forked child
    // may inherit a thread of its parent's, which does not exist there.
    if (user_.load(std::memory_order_relaxed) != nullptr && !user.origin.is_inherited())
        [[unlikely]]
      stop_for_two_threads();
    user_.store(this_thread(), std::memory_order_relaxed);
  }
  /// The same where is_free() has answered true. A call that asks itself, and leaves whatever it
  /// answers else to another function, has no call in its midst and keeps more in registers.
  struct Free {};
  ChannelUse(User& user, Free) noexcept : user_{user.thread} {
    user_.store(this_thread(), std::memory_order_relaxed);
  }
  [[nodiscard]] static bool is_free(User const& user) noexcept {
    return user.thread.load(std::memory_order_relaxed) == nullptr;
  }
  /// In the midst of a use: no call is inside, so that what is called makes calls of its own.
  class Pause {
   public:
    explicit Pause(User& user) noexcept : user_{user.thread} {
      user_.store(nullptr, std::memory_order_relaxed);
    }
    Pause(Pause const&) = delete;
    Pause& operator=(Pause const&) = delete;
    ~Pause() { user_.store(this_thread(), std::memory_order_relaxed); }

   private:
    std::atomic<void const*>& user_;
  };
  ChannelUse(ChannelUse const&) = delete;
  ChannelUse& operator=(ChannelUse const&) = delete;
  [[gnu::always_inline]] ~ChannelUse() {
    if (user_.load(std::memory_order_relaxed) != this_thread()) [[unlikely]]
      stop_for_two_threads();
    user_.store(nullptr, std::memory_order_relaxed);
  }

 private:
  // Its own address would keep the guard in memory.
#if defined(__x86_64__) || defined(__aarch64__)
  static void const* this_thread() noexcept {
    return __builtin_thread_pointer();  // one instruction; compilers lack it elsewhere
  }
#else
  LEND_EXPORT static void const* this_thread() noexcept;  // the same one in all of lend's libraries
#endif
  [[noreturn]] LEND_EXPORT static void stop_for_two_threads() noexcept;
  std::atomic<void const*>& user_;
};

}  // namespace lend::channel
