// SPDX-License-Identifier: MIT OR Apache-2.0
// What a set sleeps on: the descriptors that are added, a timer, and a word from any thread. The
// thread of the set; wake() any.
#pragma once

#include <base/unique_fd.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

namespace lend::channel {

class SetDescriptors {
 public:
  /// Errors:  exhausted  no descriptor.
  [[nodiscard]] Result<void> open() noexcept;
  /// Its mark is not one of the largest two.
  /// Errors:  exhausted  no memory of the kernel.
  [[nodiscard]] Result<void> add(int descriptor, std::uint64_t mark) const noexcept;
  /// Readable while one of them is.
  [[nodiscard]] int epoll() const noexcept { return epoll_.get(); }
  [[nodiscard]] int of_wake() const noexcept { return wake_.get(); }

  void wake() noexcept;
  /// Whether wake() was called since the last time.
  [[nodiscard]] bool take_wake() noexcept {
    return is_woken_.load(std::memory_order_relaxed) && take_counted_wake();
  }
  /// Whether wake() was called since take_wake(). If not, the next one makes epoll() readable.
  [[nodiscard]] bool is_woken() noexcept;
  /// Of epoll(): never, or a time.
  void set_timer(Deadline deadline) noexcept;
  /// Until one of them is readable, or the deadline. Their marks, and others; until the next call.
  [[nodiscard]] std::span<epoll_event const> wait(Deadline deadline) noexcept;

 private:
  [[nodiscard]] LEND_EXPORT bool take_counted_wake() noexcept;

  base::UniqueFd wake_;  // an eventfd
  base::UniqueFd timer_;
  base::UniqueFd epoll_;
  std::atomic<bool> is_woken_{false};
  std::array<epoll_event, 16> readable_{};
};

}  // namespace lend::channel
