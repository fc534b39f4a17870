// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread that cancels while the one that made it waits.
#pragma once

#include <lend/base/deadline.hpp>

#include <chrono>
#include <thread>

namespace lend::test {

/// Cancels what is under deadline(), which is far away, after `delay`. Joined at its end.
class Canceller {
 public:
  explicit Canceller(std::chrono::milliseconds delay)
      : thread_{[this, delay] {
          std::this_thread::sleep_for(delay);
          cancellation_.cancel();
        }} {}
  Canceller(Canceller const&) = delete;
  Canceller& operator=(Canceller const&) = delete;
  ~Canceller() { thread_.join(); }

  [[nodiscard]] Deadline deadline() const noexcept {
    return within(std::chrono::seconds{60}).unless(cancellation_);
  }

 private:
  Cancellation cancellation_{};
  std::thread thread_;
};

}  // namespace lend::test
