// SPDX-License-Identifier: MIT OR Apache-2.0
// The body of `stream_core.hpp`, which includes it: what the program calls.
#pragma once

#include <lend/asio/stream_core.hpp>

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

namespace lend::asio::implementation {

inline StreamCore::StreamCore(boost::asio::any_io_executor const& executor, ByteStream&& stream)
    : ConnectionCore{executor, std::move(stream)} {}

// ---- trying ----

inline std::optional<StreamCore::Outcome> StreamCore::try_read(Pieces const& pieces) noexcept {
  if (has_stopped_reading_) return Outcome{boost::asio::error::eof};
  std::size_t bytes = 0;
  for (auto const piece : pieces.bytes()) {
    auto const taken = held_->try_read(Pieces::writable(piece));
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
  if (is_closed()) return Outcome{boost::asio::error::bad_descriptor};
  if (pieces.is_empty()) return Outcome{};
  if (direction == Direction::read) return try_read(pieces);
  auto const written = held_->try_write(pieces.bytes());
  if (!written) return Outcome{failed(written.error())};
  return written.value() > 0 ? std::optional{Outcome{{}, written.value()}} : std::nullopt;
}

inline bool StreamCore::Transfer::begin() noexcept {
  // One of no bytes does not wait, and so is none too many.
  if (pieces_.is_empty() || !core_->is_occupied(direction_)) return attempt();
  end(boost::asio::error::already_started);
  return true;
}

inline bool StreamCore::Transfer::attempt() noexcept {
  auto const done = core_->attempt(direction_, pieces_);
  if (done) outcome_ = *done;
  return done.has_value();
}

// ---- the end of reading ----

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
  auto const changed = held_->poll();
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
  if (now - changed_at_ < spin_for_ || held_->limits().wait == Wait::spin) return {};
  auto const may_sleep = held_->arm();
  if (may_sleep && !may_sleep.value()) return {};
  auto const descriptor = held_->descriptor();
  bool const has_descriptor = may_sleep && descriptor;
  // It may close under the sleep, or be woken for another: not for longer than this.
  auto const look = has_descriptor ? now + Deadline::look_interval : next_nap();
  auto const at = (std::min)({held_->look_again().at(), expires_at_, look});
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

}  // namespace lend::asio::implementation
