// SPDX-License-Identifier: MIT OR Apache-2.0
// The body of `turning.hpp`, which includes it: turns and sleeps.
#pragma once

#include <lend/asio/turning.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace lend::asio::implementation {

inline void Turning::stop_sleeping() noexcept {
  if (!std::exchange(is_asleep_, false)) return;
  boost::system::error_code ignored;
  if (timer_) timer_->cancel(ignored);
  if (descriptor_) descriptor_->cancel(ignored);
}

inline void Turning::turn(Self self) {
  After after;
  {
    std::lock_guard const lock{mutex_};
    is_turning_ = false;
    if (timer_ && (advance(after) || !after.done.is_empty())) note_change();
    if (timer_ && is_needed()) {
      bool const spins = Clock::now() - changed_at_ < spin_for_;
      after.turns = is_turning_ = spins || !sleep(self);
    }
  }
  finish(after, std::move(self));
}

inline bool Turning::sleep(Self const& self) noexcept {
  auto const rest = arm();
  if (!rest) return false;
  open_descriptor();
  auto at = rest->until;
  for (auto* one = waiting_.first(); one != nullptr; one = one->next)
    at = (std::min)(at, one->expiry);
  bool const has_descriptor = rest->has_signal && descriptor_->is_open();
  if (!has_descriptor) at = (std::min)(at, next_nap());
  is_asleep_ = true;
  auto const wakes = [self, number = ++sleep_](boost::system::error_code) {
    self->wake(self, number);
  };
  if (at != (Clock::time_point::max)()) {
    timer_->expires_at(at);
    timer_->async_wait(wakes);
  }
  if (has_descriptor)
    descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read, wakes);
  return true;
}

inline void Turning::open_descriptor() noexcept {
  if (descriptor_->is_open()) return;
  auto const own = own_descriptor();
  int const copy = own ? ::fcntl(own.value(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
  if (copy < 0) return;  // the next sleep tries again
  boost::system::error_code failed;
  descriptor_->assign(copy, failed);
  if (failed) ::close(copy);
}

inline void Turning::wake(Self self, std::uint64_t sleep) {
  {
    std::lock_guard const lock{mutex_};
    if (!is_asleep_ || sleep != sleep_) return;  // the other one was sooner
    stop_sleeping();
    is_turning_ = true;  // so that no call posts another
  }
  turn(std::move(self));
}

inline void Turning::finish(After& after, Self self) {
  after.done.end_all([](Operation& one) { one.complete(); });
  if (!after.turns) return;
  auto const turns = self->turns_;
  turns.execute([self = std::move(self)]() mutable {
    auto* const turning = self.get();
    turning->turn(std::move(self));
  });
}

}  // namespace lend::asio::implementation
