// SPDX-License-Identifier: MIT OR Apache-2.0
// Many descriptors and a time behind one descriptor: epoll(7) with a timer. One thread at a time.
#pragma once

#include <base/unique_fd.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::network {

inline constexpr std::uint32_t event_input = EPOLLIN | EPOLLRDHUP;

class Poller {
 public:
  /// Errors:  exhausted, system_failed.
  [[nodiscard]] LEND_EXPORT static Result<Poller> create();

  /// Readable when ready() has something, or the time of wake_at() has come.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

  /// Shape:   `what` is not null. It is given back with each event.
  /// Errors:  exhausted, system_failed.
  [[nodiscard]] LEND_EXPORT Result<void> watch(int fd, std::uint32_t events, void* what) noexcept;
  /// Shape:   `fd` is watched.
  LEND_EXPORT void watch_again(int fd, std::uint32_t events, void* what) noexcept;
  /// To be called before `fd` is closed: a forked child may have it, too, and then it would stay.
  LEND_EXPORT void forget(int fd) noexcept;

  /// Waits until something is ready, wake_at() or `deadline`; what is ready, until the next call.
  /// Errors:  system_failed.
  [[nodiscard]] LEND_EXPORT Result<std::span<epoll_event const>> ready(Deadline deadline);

  /// Replaces the time of the last call; never(): none.
  LEND_EXPORT void wake_at(Deadline when) noexcept;

 private:
  base::UniqueFd epoll_{}, timer_{};
  std::array<epoll_event, 64> events_{};
};

}  // namespace lend::network
