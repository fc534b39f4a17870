// SPDX-License-Identifier: MIT OR Apache-2.0
// Timers for programs that sleep, or do other things. A polling thread retries stalled work itself;
// if no thread polls, because all wait for an event, one thread of the context does it. It is
// created when work stalls for the first time after a queue was armed, when work waits for a lock
// of a peer's, or when the program asks for the event of a drain, and sleeps without a timer when
// no work is stalled. While some is, it sleeps between two retries
// on a word in the context's segment, where peers can wake it.
#pragma once

#include <pthread.h>
#include <atomic>
#include <cstdint>

namespace lend::soft {

struct Context;
struct Segment;

/// Any thread. Destroyed, or stopped, by the thread that closes the context.
class TimerThread {
 public:
  /// Retries stalled work once. False: another thread is retrying some of it.
  using Retry = bool(Context&) noexcept;

  explicit TimerThread(Retry*) noexcept;
  ~TimerThread();
  TimerThread(TimerThread const&) = delete;
  TimerThread& operator=(TimerThread const&) = delete;

  /// A thread may sleep until an event of an armed queue or of a draining send queue: from now on
  /// possibly no thread polls for stalled work. 0, or errno with reason if a thread is needed and
  /// cannot be created.
  [[nodiscard]] int sleeper_came(Context&) noexcept;
  /// Work was stalled. 0, or errno with reason if possibly no thread polls and none can be created:
  /// the work must not wait.
  [[nodiscard]] int work_stalled(Context& context) noexcept {
    // Sequentially consistent, as in sleeper_came(): of the two, the later sees the other.
    return sleepers_.load() != 0 ? call(context) : 0;
  }
  /// Work was stalled by a lock of its target's. No other process retries it, and the program may
  /// have gone on to something else. Where no thread can be created, the next poll does it.
  void work_met_lock(Context& context) noexcept { static_cast<void>(call(context)); }
  void stop() noexcept;

  /// Wakes the timer thread of this segment's owner, in any process.
  static void end_rest(Segment&) noexcept;
  /// For tests: sets how long it sleeps, in nanoseconds, without a wake-up. Before a sleeper came.
  void set_rests(std::uint64_t span) noexcept { rest_min_ = rest_max_ = span; }

 private:
  [[nodiscard]] int call(Context&) noexcept;
  static void* run(void* context) noexcept;
  void serve(Context&) noexcept;
  /// False when it is time to end.
  bool rest(Segment&, std::uint64_t nanoseconds) noexcept;

  Retry* const retry_;
  std::atomic<std::uint64_t> sleepers_{0};  // how often one came, without refused ones
  pthread_mutex_t mutex_;
  pthread_cond_t changed_;
  pthread_t thread_{};
  Segment* segment_ = nullptr;  // of the context that is served, once there is a thread
  static constexpr std::uint64_t brief_rest = 500'000;
  std::uint64_t rest_min_ = brief_rest;
  std::uint64_t rest_max_ = 10'000'000;
  bool is_running_ = false;
  bool is_called_ = false;
  bool must_end_ = false;
};

}  // namespace lend::soft
