// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread that looks after stalled work while everybody sleeps. Any thread calls it.
#include <soft/objects/timer_thread.hpp>

#include <soft/objects/context.hpp>
#include <soft/platform/clock.hpp>
#include <soft/platform/reason.hpp>

#include <signal.h>

#include <algorithm>
#include <cstring>

namespace lend::soft {
namespace {

// SharedHeader::rests.
constexpr std::uint32_t is_resting = 1;

}  // namespace

TimerThread::TimerThread(Retry* retry) noexcept : retry_{retry} {
  ::pthread_mutex_init(&mutex_, nullptr);
  pthread_condattr_t attributes;
  ::pthread_condattr_init(&attributes);
  ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  ::pthread_cond_init(&changed_, &attributes);
  ::pthread_condattr_destroy(&attributes);
}

TimerThread::~TimerThread() {
  stop();
  ::pthread_cond_destroy(&changed_);
  ::pthread_mutex_destroy(&mutex_);
}

int TimerThread::sleeper_came(Context& context) noexcept {
  sleepers_.fetch_add(1);
  // Not maybe_any(), which a walk clears for a moment.
  auto const error = context.stalled.any() ? call(context) : 0;
  if (error != 0) sleepers_.fetch_sub(1);  // it was refused, and polls
  return error;
}

int TimerThread::call(Context& context) noexcept {
  ::pthread_mutex_lock(&mutex_);
  int error = 0;
  if (!is_running_) {
    // The program's signals are for its own threads, but for what this one meets itself: it touches
    // the program's memory, whose faults the program may handle.
    // Source: kernel kernel/signal.c, SYNCHRONOUS_MASK, and force_sig_info_to_task().
    sigset_t blocked;
    sigset_t before;
    ::sigfillset(&blocked);
    for (int const fault : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS})
      ::sigdelset(&blocked, fault);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
    // A stack of the default size: the program's thread-local variables lie there, too.
    error = ::pthread_create(&thread_, nullptr, run, &context);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    is_running_ = error == 0;
    segment_ = &context.segment;
  }
  is_called_ = true;
  ::pthread_cond_signal(&changed_);
  ::pthread_mutex_unlock(&mutex_);
  end_rest(context.segment);
  return error == 0
             ? 0
             : fail(error, "no thread for the soft device's timers: %s", std::strerror(error));
}

void* TimerThread::run(void* context) noexcept {
  auto& served = *static_cast<Context*>(context);
  served.timer_thread.serve(served);
  return nullptr;
}

void TimerThread::serve(Context& context) noexcept {
  ::pthread_mutex_lock(&mutex_);
  for (;;) {
    while (!is_called_ && !must_end_) ::pthread_cond_wait(&changed_, &mutex_);
    if (must_end_) break;
    // Before the look below: a call that comes later is not lost.
    is_called_ = false;
    ::pthread_mutex_unlock(&mutex_);
    auto const began = now();
    bool goes_on = true;
    while (goes_on && context.stalled.any()) {
      // Before the look: who then posts a receive, or has work stalled, ends the rest to come.
      context.segment.header.rests.exchange(is_resting);
      auto const has_met_all = retry_(context);
      // At most a sixteenth of the time waited so far, so that no wait gets much longer by it;
      // within bounds, for neither spinning nor dozing off. Who just posts or polls is soon done.
      goes_on =
          rest(context.segment,
               has_met_all ? std::clamp((now() - began) / 16, rest_min_, rest_max_) : brief_rest);
    }
    context.segment.header.rests.store(0);
    ::pthread_mutex_lock(&mutex_);
  }
  ::pthread_mutex_unlock(&mutex_);
}

bool TimerThread::rest(Segment& segment, std::uint64_t nanoseconds) noexcept {
  ::pthread_mutex_lock(&mutex_);
  bool const goes_on = !must_end_;
  ::pthread_mutex_unlock(&mutex_);
  // Who stops it from here on finds the word set.
  if (goes_on) static_cast<void>(futex_wait_for(segment.header.rests, is_resting, nanoseconds));
  return goes_on;
}

void TimerThread::end_rest(Segment& segment) noexcept {
  auto& rests = segment.header.rests;
  // Sequentially consistent with serve(): its look finds what we come from, or its word is found.
  if (rests.load() != 0 && rests.exchange(0) != 0) futex_wake_one(rests);
}

void TimerThread::stop() noexcept {
  ::pthread_mutex_lock(&mutex_);
  must_end_ = true;
  ::pthread_cond_signal(&changed_);
  bool const was_running = is_running_;
  is_running_ = false;
  ::pthread_mutex_unlock(&mutex_);
  if (!was_running) return;
  end_rest(*segment_);
  ::pthread_join(thread_, nullptr);
}

}  // namespace lend::soft
