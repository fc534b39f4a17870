// SPDX-License-Identifier: MIT OR Apache-2.0
// SIGINT and SIGTERM end what is done again and again, between two times. The main thread.
#pragma once

#include <chrono>
#include <csignal>
#include <ctime>

namespace lend::tools {

class UntilSignal {
 public:
  UntilSignal() noexcept {
    ::sigemptyset(&ends_);
    ::sigaddset(&ends_, SIGINT);
    ::sigaddset(&ends_, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &ends_, nullptr);
  }
  /// Whether one has come, or comes within that time.
  [[nodiscard]] bool comes_within(std::chrono::milliseconds time) const noexcept {
    timespec const most{time.count() / 1000, time.count() % 1000 * 1'000'000};
    return ::sigtimedwait(&ends_, nullptr, &most) > 0;
  }

 private:
  sigset_t ends_{};
};

}  // namespace lend::tools
