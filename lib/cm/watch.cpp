// SPDX-License-Identifier: MIT OR Apache-2.0
// An epoll over an event channel and a timer.
#include <cm/watch.hpp>

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>

namespace lend::cm {

Result<Watch> Watch::of(EventChannel const& events) {
  Watch watch{events.native()->fd};
  watch.timer_ = base::UniqueFd{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  if (!watch.timer_) return Error::from_errno("timerfd_create", errno);
  watch.both_ = base::UniqueFd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!watch.both_) return Error::from_errno("epoll_create1", errno);
  LEND_TRYV(watch.add(watch.events_));
  LEND_TRYV(watch.add(watch.timer_.get()));
  return watch;
}

Result<void> Watch::add(int fd) const {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (::epoll_ctl(both_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return Error::from_errno("epoll_ctl", errno);
  return success();
}

// A forked child may have a copy of the descriptor. As long as that is open, the parent's own epoll
// does not forget it, so it must not become readable any more. Source: epoll(7), questions and
// answers, 6.
Watch::~Watch() {
  if (!both_ || origin_.is_inherited()) return;
  set(Deadline::Clock::time_point::max());
  ::epoll_ctl(both_.get(), EPOLL_CTL_DEL, events_, nullptr);
}

void Watch::set(Deadline::Clock::time_point at) noexcept {
  itimerspec timer{};  // zero: none
  if (at != Deadline::Clock::time_point::max()) {
    auto const time = std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch());
    auto const since_boot = std::max<std::int64_t>(1, time.count());
    timer.it_value = {static_cast<time_t>(since_boot / 1'000'000'000),
                      static_cast<long>(since_boot % 1'000'000'000)};
  }
  // Setting it also takes what it has counted. Source: timerfd_settime(2).
  [[maybe_unused]] int const result =
      ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &timer, nullptr);
}

}  // namespace lend::cm
