// SPDX-License-Identifier: MIT OR Apache-2.0
// The body of `stream_core.hpp`, which includes it: what the program calls.
#pragma once

#include <lend/asio/stream_core.hpp>

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

namespace lend::asio::implementation {

/// How long a closed stream waits until its peer's device has what was sent.
inline constexpr std::chrono::seconds linger_max{1};

inline StreamCore::StreamCore(boost::asio::any_io_executor const& executor, ByteStream&& stream)
    : Turning{executor}, stream_{std::move(stream)} {}

// ---- trying ----

inline std::optional<StreamCore::Outcome> StreamCore::try_read(Pieces const& pieces) noexcept {
  if (has_stopped_reading_) return Outcome{boost::asio::error::eof};
  std::size_t bytes = 0;
  for (auto const piece : pieces.bytes()) {
    auto const taken = stream_->try_read(Pieces::writable(piece));
    if (!taken && bytes == 0) return Outcome{failed(taken.error())};
    if (!taken) break;  // the next read has the error
    bytes += taken.value().bytes;
    if (taken.value().at_end && bytes == 0) return Outcome{boost::asio::error::eof};
    if (taken.value().bytes < piece.size()) break;
  }
  return bytes > 0 ? std::optional{Outcome{{}, bytes}} : std::nullopt;
}

inline std::optional<StreamCore::Outcome> StreamCore::attempt(Direction direction,
                                                              Pieces const& pieces) noexcept {
  if (!stream_ || is_lingering_) return Outcome{boost::asio::error::bad_descriptor};
  if (pieces.is_empty()) return Outcome{};
  if (direction == Direction::read) return try_read(pieces);
  auto const written = stream_->try_write(pieces.bytes());
  if (!written) return Outcome{failed(written.error())};
  return written.value() > 0 ? std::optional{Outcome{{}, written.value()}} : std::nullopt;
}

inline bool StreamCore::Transfer::begin() noexcept {
  // One of no bytes does not wait, and so is none too many. One that was taken on another thread
  // has its room until it is destroyed.
  if (pieces.is_empty() || !room()->is_used.load(std::memory_order_acquire)) return attempt();
  end(boost::asio::error::already_started);
  return true;
}

inline bool StreamCore::Transfer::attempt() noexcept {
  auto const done = core->attempt(direction, pieces);
  if (done) outcome = *done;
  return done.has_value();
}

// ---- for turns ----

inline bool StreamCore::advance(After& after) noexcept {
  if (!stream_) return false;
  auto const changed = stream_->poll();  // a read or write has its error
  attempt_all(after);
  linger();
  return !changed || changed.value();
}

inline std::optional<Turning::Rest> StreamCore::arm() noexcept {
  if (stream_->limits().wait == Wait::spin) return std::nullopt;
  auto const may_sleep = stream_->arm();
  if (may_sleep && !may_sleep.value()) return std::nullopt;
  auto const until = stream_->look_again().at();
  return Rest{may_sleep.has_value(), is_lingering_ ? (std::min)(until, lingers_until_) : until};
}

// ---- ends ----

inline bool StreamCore::is_broken() noexcept {
  auto const draft = stream_->try_draft(0, 0);
  if (draft) return false;
  return draft.error() != Errc::finished || !stream_->finish_writing();  // again: only looks
}

inline void StreamCore::linger() noexcept {
  if (!is_lingering_) return;
  if (stream_->sends_in_flight() > 0 && !is_broken() && Clock::now() < lingers_until_) return;
  is_lingering_ = false;
  descriptor_.reset();
  stream_.reset();
}

inline void StreamCore::close() noexcept {
  After after;
  {
    std::lock_guard const lock{mutex_};
    take_all(boost::asio::error::operation_aborted, after);
    if (stream_ && !is_lingering_) {
      is_lingering_ = timer_.has_value();
      lingers_until_ = Clock::now() + linger_max;
      static_cast<void>(stream_->poll());
      linger();
      if (is_lingering_) begin_turning(after);
      if (!timer_) stream_.reset();
    }
    if (!is_needed()) stop_sleeping();
  }
  finish(after, shared_from_this());
}

inline void StreamCore::finish_writing(boost::system::error_code& code) noexcept {
  After after;
  {
    std::lock_guard const lock{mutex_};
    code = {};
    if (!stream_ || is_lingering_) {
      code = boost::asio::error::bad_descriptor;
    } else if (auto const done = stream_->finish_writing(); !done) {
      code = failed(done.error());
    }
    if (has_operation()) begin_turning(after);
  }
  finish(after, shared_from_this());
}

inline void StreamCore::stop_reading() noexcept {
  After after;
  {
    std::lock_guard const lock{mutex_};
    has_stopped_reading_ = true;
    attempt_all(after);
    if (!is_needed()) stop_sleeping();
  }
  finish(after, shared_from_this());
}

// ---- calls that wait ----

/// -1: just sleeps.
inline void wait_until_readable(int descriptor, Clock::duration time) noexcept {
  auto const left = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  if (left <= 0) return;
  timespec const wait{left / 1'000'000'000, left % 1'000'000'000};
  pollfd waiting{descriptor, POLLIN, 0};
  static_cast<void>(::ppoll(&waiting, 1, &wait, nullptr));
}

inline StreamCore::Try StreamCore::try_once(Direction direction, Pieces const& pieces) noexcept {
  if (auto const done = attempt(direction, pieces)) return {done};
  auto const changed = stream_->poll();
  if (!changed) {  // the attempt says what that means for this direction
    auto const done = attempt(direction, pieces);
    return {done ? done : Outcome{failed(changed.error())}};
  }
  if (changed.value()) {
    note_change();
    return {};
  }
  auto const now = Clock::now();
  if (now >= expires_at_) return {Outcome{boost::asio::error::timed_out}};
  if (now - changed_at_ < spin_for_ || stream_->limits().wait == Wait::spin) return {};
  auto const may_sleep = stream_->arm();
  if (may_sleep && !may_sleep.value()) return {};
  auto const descriptor = stream_->descriptor();
  bool const has_descriptor = may_sleep && descriptor;
  // It may close under the sleep, or be woken for another: not for longer than this.
  auto const look = has_descriptor ? now + Deadline::look_interval : next_nap();
  auto const at = (std::min)({stream_->look_again().at(), expires_at_, look});
  return {std::nullopt, at - now, has_descriptor ? descriptor.value() : -1};
}

inline std::size_t StreamCore::run(Direction direction, Pieces const& pieces,
                                   boost::system::error_code& code) {
  After after;
  Try last;
  {
    std::lock_guard const lock{mutex_};
    note_change();
    last = has_operation() && !pieces.is_empty() ? Try{Outcome{boost::asio::error::already_started}}
                                                 : try_once(direction, pieces);
  }
  while (!last.outcome) {
    if (last.sleep)
      wait_until_readable(last.descriptor, *last.sleep);
    else
      std::this_thread::yield();
    std::lock_guard const lock{mutex_};
    last = try_once(direction, pieces);
    // This may have taken the event that an operation sleeps for.
    if (last.outcome && has_operation()) begin_turning(after);
  }
  finish(after, shared_from_this());
  code = last.outcome->code;
  return last.outcome->bytes;
}

// ---- the rest ----

inline bool StreamCore::is_open() const noexcept {
  std::lock_guard const lock{mutex_};
  return stream_.has_value() && !is_lingering_;
}

}  // namespace lend::asio::implementation
