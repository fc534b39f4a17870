// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the set; wake() any.
#include <base/giving_up.hpp>
#include <channel/state/set_descriptors.hpp>

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace lend::channel {

namespace {

constexpr std::uint64_t wake_mark = UINT64_MAX;
constexpr std::uint64_t timer_mark = UINT64_MAX - 1;

Error cannot_make(char const* call, int error) noexcept {
  return Error::from_errno(Errc::exhausted, call, error,
                           "A WaitSet takes three descriptors, and two for each of its queues.");
}

void read_counter(int descriptor) noexcept {
  std::uint64_t count = 0;
  // Nothing there is no failure.
  [[maybe_unused]] auto const got = ::read(descriptor, &count, sizeof count);
}

}  // namespace

Result<void> SetDescriptors::open() noexcept {
  wake_ = base::UniqueFd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!wake_) return cannot_make("eventfd", errno);
  timer_ = base::UniqueFd{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  if (!timer_) return cannot_make("timerfd_create", errno);
  epoll_ = base::UniqueFd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll_) return cannot_make("epoll_create1", errno);
  LEND_TRYV(add(wake_.get(), wake_mark));
  return add(timer_.get(), timer_mark);
}

Result<void> SetDescriptors::add(int descriptor, std::uint64_t mark) const noexcept {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = mark}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return success();
  return cannot_make("epoll_ctl", errno);
}

void SetDescriptors::wake() noexcept {
  // Release pairs with the acquire in take_wake(), and comes before the descriptor's change: a
  // thread that has read the descriptor sees this.
  is_woken_.store(true, std::memory_order_release);
  std::uint64_t const one = 1;
  [[maybe_unused]] auto const put = ::write(wake_.get(), &one, sizeof one);
}

bool SetDescriptors::take_counted_wake() noexcept {
  read_counter(wake_.get());
  return is_woken_.exchange(false, std::memory_order_acquire);
}

bool SetDescriptors::is_woken() noexcept {
  read_counter(wake_.get());
  return is_woken_.load(std::memory_order_acquire);
}

void SetDescriptors::set_timer(Deadline deadline) noexcept {
  itimerspec timer{};  // zero: none
  if (!deadline.is_never()) {
    auto const at =
        std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.at().time_since_epoch())
            .count();
    timer.it_value = {static_cast<time_t>(at / 1'000'000'000),
                      static_cast<long>(at % 1'000'000'000)};
  }
  // Setting it also takes what it has counted. Source: timerfd_settime(2).
  [[maybe_unused]] int const set =
      ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &timer, nullptr);
}

std::span<epoll_event const> SetDescriptors::wait(Deadline deadline) noexcept {
  int count = 0;
  do {
    count = ::epoll_wait(epoll_.get(), readable_.data(), static_cast<int>(readable_.size()),
                         base::poll_milliseconds(deadline));
  } while (count == 0 && !deadline.has_passed());
  std::span const found{readable_.data(), static_cast<std::size_t>(count > 0 ? count : 0)};
  for (auto const& one : found) {
    if (one.data.u64 == wake_mark) read_counter(wake_.get());
    if (one.data.u64 == timer_mark) read_counter(timer_.get());
  }
  return found;
}

}  // namespace lend::channel
