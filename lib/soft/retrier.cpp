// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread that looks after stalled work while everybody sleeps. Any thread calls it.
#include "retrier.hpp"

#include "clock.hpp"
#include "context.hpp"
#include "queue_pair.hpp"
#include "reason.hpp"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstring>

namespace lend::soft {
namespace {

// Between two looks at most a sixteenth of the time waited so far, so that no wait gets much longer
// by it; within bounds, for neither spinning nor dozing off.
constexpr std::uint64_t rest_min = 500'000;
constexpr std::uint64_t rest_max = 10'000'000;
constexpr std::size_t stack_bytes = 128 << 10;

}  // namespace

Retrier::Retrier() noexcept {
  ::pthread_mutex_init(&mutex_, nullptr);
  pthread_condattr_t attributes;
  ::pthread_condattr_init(&attributes);
  ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  ::pthread_cond_init(&changed_, &attributes);
  ::pthread_condattr_destroy(&attributes);
}

Retrier::~Retrier() {
  stop();
  ::pthread_cond_destroy(&changed_);
  ::pthread_mutex_destroy(&mutex_);
}

int Retrier::sleeper_came(Context& context) noexcept {
  if (!has_sleepers_.load(std::memory_order_relaxed)) has_sleepers_.store(true);
  // Not maybe_any(), which a walk clears for a moment.
  return context.stalled.any() ? call(context) : 0;
}

int Retrier::call(Context& context) noexcept {
  ::pthread_mutex_lock(&mutex_);
  int error = 0;
  if (!is_running_) {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, stack_bytes);
    // The program's signals are for its own threads.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    error = ::pthread_create(&thread_, &attributes, run, &context);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_attr_destroy(&attributes);
    is_running_ = error == 0;
  }
  is_called_ = true;
  ::pthread_cond_signal(&changed_);
  ::pthread_mutex_unlock(&mutex_);
  return error == 0
             ? 0
             : fail(error, "no thread for the soft device's timers: %s", std::strerror(error));
}

void* Retrier::run(void* context) noexcept {
  auto& served = *static_cast<Context*>(context);
  served.retrier.serve(served);
  return nullptr;
}

void Retrier::serve(Context& context) noexcept {
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
      retry_stalled(context);
      goes_on = rest(static_cast<long>(std::clamp((now() - began) / 16, rest_min, rest_max)));
    }
    ::pthread_mutex_lock(&mutex_);
  }
  ::pthread_mutex_unlock(&mutex_);
}

bool Retrier::rest(long nanoseconds) noexcept {
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += nanoseconds;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  ::pthread_mutex_lock(&mutex_);
  while (!must_end_ && ::pthread_cond_timedwait(&changed_, &mutex_, &until) == 0) {
  }
  bool const goes_on = !must_end_;
  ::pthread_mutex_unlock(&mutex_);
  return goes_on;
}

void Retrier::stop() noexcept {
  ::pthread_mutex_lock(&mutex_);
  must_end_ = true;
  ::pthread_cond_signal(&changed_);
  bool const was_running = is_running_;
  is_running_ = false;
  ::pthread_mutex_unlock(&mutex_);
  if (was_running) ::pthread_join(thread_, nullptr);
}

}  // namespace lend::soft
