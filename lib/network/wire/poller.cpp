// SPDX-License-Identifier: MIT OR Apache-2.0
#include <base/giving_up.hpp>
#include <network/wire/poller.hpp>

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace lend::network {

namespace {

timespec time_of(Deadline::Clock::duration duration) {
  // A time of 0 would stop the timer.
  auto const left = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  return {static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
}

}  // namespace

Result<Poller> Poller::create() {
  Poller poller;
  poller.epoll_ = base::UniqueFd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!poller.epoll_) return Error::from_errno("epoll_create1", errno);
  poller.timer_ = base::UniqueFd{::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
  if (!poller.timer_) return Error::from_errno("timerfd_create", errno);
  LEND_TRYV(poller.watch(poller.timer_.get(), EPOLLIN, nullptr));
  return poller;
}

Result<void> Poller::watch(int fd, std::uint32_t events, void* what) noexcept {
  epoll_event event{.events = events, .data = {.ptr = what}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return success();
  return Error::from_errno("epoll_ctl", errno);
}

void Poller::watch_again(int fd, std::uint32_t events, void* what) noexcept {
  epoll_event event{.events = events, .data = {.ptr = what}};
  // Of a descriptor that is watched this needs no memory and cannot fail.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::forget(int fd) noexcept {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Result<std::span<epoll_event const>> Poller::ready(Deadline deadline) {
  int count = 0;
  do {
    count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                         base::poll_milliseconds(deadline));
    if (count < 0 && errno != EINTR) return Error::from_errno("epoll_wait", errno);
  } while (count <= 0 && !deadline.has_passed());
  auto const came = std::span{events_}.first(static_cast<std::size_t>(std::max(count, 0)));
  auto const timer = std::ranges::find(came, nullptr, [](auto const& one) { return one.data.ptr; });
  if (timer == came.end()) return came;
  *timer = came.back();
  return came.first(came.size() - 1);
}

void Poller::wake_at(Deadline when) noexcept {
  itimerspec timer{};
  if (!when.is_never()) timer.it_value = time_of(when.until_next_look());
  (void)::timerfd_settime(timer_.get(), 0, &timer, nullptr);
}

}  // namespace lend::network
