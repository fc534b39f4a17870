// SPDX-License-Identifier: MIT OR Apache-2.0
// Timers for programs that sleep. Whoever polls retries stalled work as it goes; when nobody does,
// because all wait for an event, one thread of the context does it. It exists from the first time
// that work is stalled after somebody asked for an event, and sleeps without a timer when none is.
#pragma once

#include <pthread.h>
#include <atomic>

namespace lend::soft {

struct Context;

/// Any thread. Destroyed, or stopped, by the thread that closes the context.
class Retrier {
 public:
  Retrier() noexcept;
  ~Retrier();
  Retrier(Retrier const&) = delete;
  Retrier& operator=(Retrier const&) = delete;

  /// Somebody may sleep until an event comes, of an armed queue or of a send queue that drains:
  /// from now on stalled work may have nobody who polls. 0, or errno with reason when there is need
  /// of a thread and none can be made.
  [[nodiscard]] int sleeper_came(Context&) noexcept;
  /// Work was stalled. 0, or errno with reason when nobody may poll and no thread can be made: the
  /// work must not wait.
  [[nodiscard]] int work_stalled(Context& context) noexcept {
    // Sequentially consistent, as in sleeper_came(): of the two, the later sees the other.
    return has_sleepers_.load() ? call(context) : 0;
  }
  void stop() noexcept;

 private:
  [[nodiscard]] int call(Context&) noexcept;
  static void* run(void* context) noexcept;
  void serve(Context&) noexcept;
  /// False when it is time to end.
  bool rest(long nanoseconds) noexcept;

  std::atomic<bool> has_sleepers_{false};
  pthread_mutex_t mutex_;
  pthread_cond_t changed_;
  pthread_t thread_{};
  bool is_running_ = false;
  bool is_called_ = false;
  bool must_end_ = false;
};

}  // namespace lend::soft
