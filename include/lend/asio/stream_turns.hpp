// SPDX-License-Identifier: MIT OR Apache-2.0
// The body of `stream_core.hpp`, which includes it: turns and sleeps.
#pragma once

#include <lend/asio/stream_core.hpp>

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace lend::asio::implementation {

/// How long a stream without a descriptor sleeps, as a Wait::adaptive without one.
inline constexpr std::chrono::microseconds nap{50};
inline bool StreamCore::is_needed() const noexcept {
  return is_lingering_ || operations_[0].operation != nullptr ||
         operations_[1].operation != nullptr;
}

inline void StreamCore::begin_turning(After& after) noexcept {
  stop_sleeping();
  changed_at_ = Clock::now();
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
      if (!changed || changed.value() || after.count > 0) changed_at_ = Clock::now();
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
    if (kept.operation != nullptr) at = std::min(at, kept.expiry);
  if (is_lingering_) at = std::min(at, lingers_until_);
  if (!may_sleep || !descriptor_) at = std::min(at, Clock::now() + nap);
  is_asleep_ = true;
  auto const wakes = [self, number = ++sleep_](boost::system::error_code) {
    self->wake(self, number);
  };
  if (at != Clock::time_point::max()) {
    timer_->expires_at(at);
    timer_->async_wait(wakes);
  }
  if (may_sleep && descriptor_)
    descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read, wakes);
  return true;
}

inline void StreamCore::open_descriptor() noexcept {
  if (descriptor_ || has_no_descriptor_) return;
  auto const own = stream_->descriptor();
  int const copy = own ? ::fcntl(own.value(), F_DUPFD_CLOEXEC, 0) : -1;
  has_no_descriptor_ = copy < 0;
  if (copy >= 0) descriptor_.emplace(turns_, copy);
}

inline void StreamCore::wake(Self self, std::uint64_t sleep) {
  {
    std::lock_guard const lock{mutex_};
    if (!is_asleep_ || sleep != sleep_) return;  // the other one was sooner
    stop_sleeping();
    is_turning_ = true;  // so that no call posts another
    changed_at_ = Clock::now();
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
