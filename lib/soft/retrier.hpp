// SPDX-License-Identifier: MIT OR Apache-2.0
// Timers for programs that sleep. Whoever polls retries stalled work as it goes; when nobody does,
// because all wait for an event, one thread of the context does it. It exists from the first time
// that work is stalled after somebody asked for an event, and sleeps without a timer when none is.
// While some is, it rests between two looks, in the context's segment, where peers can end that.
#pragma once

#include <pthread.h>
#include <atomic>
#include <cstdint>

namespace lend::soft {

struct Context;
struct Segment;

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
    return sleepers_.load() != 0 ? call(context) : 0;
  }
  void stop() noexcept;

  /// A rest of the retrier that serves the owner of this segment, of whatever process, ends now.
  static void end_rest(Segment&) noexcept;
  /// For tests: so long are its rests, in nanoseconds, if nobody ends them. Before a sleeper came.
  void set_rests(std::uint64_t span) noexcept { rest_min_ = rest_max_ = span; }

 private:
  [[nodiscard]] int call(Context&) noexcept;
  static void* run(void* context) noexcept;
  void serve(Context&) noexcept;
  /// False when it is time to end.
  bool rest(Segment&, std::uint64_t nanoseconds) noexcept;

  std::atomic<std::uint64_t> sleepers_{0};  // how often one came; without those who were refused
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
