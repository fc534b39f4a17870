// SPDX-License-Identifier: MIT OR Apache-2.0
// The body of `stream_core.hpp`, which includes it: turns and sleeps.
#pragma once

#include <lend/asio/stream_core.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace lend::asio::implementation {

inline bool StreamCore::is_needed() const noexcept {
  return is_lingering_ || has_operation();
}
inline bool StreamCore::has_operation() const noexcept {
  return operations_[0].operation != nullptr || operations_[1].operation != nullptr;
}

inline void StreamCore::note_change() noexcept {
  changed_at_ = Clock::now();
  nap_ = nap_min;
}

inline void StreamCore::begin_turning(After& after) noexcept {
  stop_sleeping();
  note_change();
  after.turns = !std::exchange(is_turning_, true);
}

inline void StreamCore::stop_sleeping() noexcept {
  if (!std::exchange(is_asleep_, false)) return;
  boost::system::error_code ignored;
  if (timer_) timer_->cancel(ignored);
  if (descriptor_) descriptor_->cancel(ignored);
}

inline void StreamCore::turn(Self self) {
  After after;
  {
    std::lock_guard const lock{mutex_};
    is_turning_ = false;
    if (stream_ && timer_) {
      auto const changed = stream_->poll();  // a read or write has its error
      attempt_all(after);
      linger();
      if (!changed || changed.value() || after.count > 0) note_change();
    }
    if (timer_ && is_needed()) {
      bool const spins = Clock::now() - changed_at_ < spin_for_;
      after.turns = is_turning_ = spins || !sleep(self);
    }
  }
  finish(after, std::move(self));
}

inline bool StreamCore::sleep(Self const& self) noexcept {
  if (stream_->limits().wait == Wait::spin) return false;
  auto const may_sleep = stream_->arm();
  if (may_sleep && !may_sleep.value()) return false;
  open_descriptor();
  auto at = stream_->look_again().at();
  for (auto const& kept : operations_)
    if (kept.operation != nullptr) at = (std::min)(at, kept.expiry);
  if (is_lingering_) at = (std::min)(at, lingers_until_);
  bool const has_descriptor = may_sleep && descriptor_->is_open();
  if (!has_descriptor) {
    at = (std::min)(at, Clock::now() + nap_);
    nap_ = (std::min)(2 * nap_, nap_max);
  }
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

inline void StreamCore::open_descriptor() noexcept {
  if (descriptor_->is_open()) return;
  auto const own = stream_->descriptor();
  int const copy = own ? ::fcntl(own.value(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
  if (copy < 0) return;  // the next sleep tries again
  boost::system::error_code failed;
  descriptor_->assign(copy, failed);
  if (failed) ::close(copy);
}

inline void StreamCore::wake(Self self, std::uint64_t sleep) {
  {
    std::lock_guard const lock{mutex_};
    if (!is_asleep_ || sleep != sleep_) return;  // the other one was sooner
    stop_sleeping();
    is_turning_ = true;  // so that no call posts another
  }
  turn(std::move(self));
}

inline void StreamCore::finish(After const& after, Self self) {
  for (auto const& done : std::span{after.done}.first(after.count))
    done.operation->complete(done.outcome.code, done.outcome.bytes);
  if (!after.turns) return;
  auto const turns = self->turns_;
  turns.execute([self = std::move(self)]() mutable {
    auto* const core = self.get();
    core->turn(std::move(self));
  });
}

}  // namespace lend::asio::implementation
