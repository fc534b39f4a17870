// SPDX-License-Identifier: MIT OR Apache-2.0
// What streams and messages have in common in an execution context: it is polled by turns, and kept
// for a while once it is closed. For the headers beside it. Any thread.
//
//   open ──close()──▶ lingering, until what was sent has arrived ──▶ gone
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/asio/turning.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/transport.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/system/error_code.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

namespace lend::asio::implementation {

/// One operation of each may wait.
enum class Direction : std::uint8_t { read, write };

/// How long a closed one waits until its peer's device has what was sent.
inline constexpr std::chrono::seconds linger_max{1};

/// `Held` is a ByteStream or a transport.
template <class Held>
class ConnectionCore : public Turning {
 public:
  using Turning::start;
  void close() noexcept;
  void finish_sending(boost::system::error_code& code) noexcept;
  [[nodiscard]] bool is_open() const noexcept {
    std::lock_guard const lock{mutex_};
    return !is_closed();
  }

 protected:
  ConnectionCore(boost::asio::any_io_executor const& executor, Held&& held)
      : Turning{executor}, held_{std::move(held)} {}
  ~ConnectionCore() override = default;

  // ---- with the mutex ----
  [[nodiscard]] bool is_closed() const noexcept { return !held_ || is_lingering_; }
  [[nodiscard]] bool is_needed() const noexcept override {
    return is_lingering_ || has_operation();
  }
  [[nodiscard]] OperationRoom& room_of(Direction direction) noexcept {
    return rooms_[static_cast<std::size_t>(direction)];
  }
  /// Whether an operation of this direction waits. One that was taken on another thread has its
  /// room until it is destroyed.
  [[nodiscard]] bool is_occupied(Direction direction) noexcept {
    return room_of(direction).is_used.load(std::memory_order_acquire);
  }

  std::optional<Held> held_;  // none: closed

 private:
  [[nodiscard]] bool advance(After& after) noexcept override;
  [[nodiscard]] std::optional<Rest> arm() noexcept override;
  [[nodiscard]] Result<int> own_descriptor() const noexcept override { return held_->descriptor(); }
  /// Again: only looks.
  [[nodiscard]] Result<void> finish_held() noexcept {
    if constexpr (requires { held_->finish_writing(); })
      return held_->finish_writing();
    else
      return held_->finish_sending();
  }
  [[nodiscard]] bool is_broken() noexcept;
  void linger() noexcept;

  static_assert(static_cast<int>(Direction::read) + static_cast<int>(Direction::write) == 1);
  std::array<OperationRoom, 2> rooms_{};
  Clock::time_point lingers_until_{};
  bool is_lingering_ = false;
};

// ---- for turns ----

template <class Held>
bool ConnectionCore<Held>::advance(After& after) noexcept {
  if (!held_) return false;
  auto const changed = held_->poll();  // an operation has its error
  attempt_all(after);
  linger();
  return !changed || changed.value();
}

template <class Held>
std::optional<Turning::Rest> ConnectionCore<Held>::arm() noexcept {
  if (held_->limits().wait == Wait::spin) return std::nullopt;
  auto const may_sleep = held_->arm();
  if (may_sleep && !may_sleep.value()) return std::nullopt;
  auto const until = held_->look_again().at();
  return Rest{may_sleep.has_value(), is_lingering_ ? (std::min)(until, lingers_until_) : until};
}

// ---- ends ----

template <class Held>
bool ConnectionCore<Held>::is_broken() noexcept {
  auto const draft = held_->try_draft(0, 0);
  if (draft) return false;
  return draft.error() != Errc::finished || !finish_held();
}

template <class Held>
void ConnectionCore<Held>::linger() noexcept {
  if (!is_lingering_) return;
  if (held_->sends_in_flight() > 0 && !is_broken() && Clock::now() < lingers_until_) return;
  is_lingering_ = false;
  descriptor_.reset();
  held_.reset();
}

template <class Held>
void ConnectionCore<Held>::close() noexcept {
  After after;
  {
    std::lock_guard const lock{mutex_};
    take_all(boost::asio::error::operation_aborted, after);
    if (held_ && !is_lingering_) {
      is_lingering_ = timer_.has_value();
      lingers_until_ = Clock::now() + linger_max;
      static_cast<void>(held_->poll());
      linger();
      if (is_lingering_) begin_turning(after);
      if (!timer_) held_.reset();
    }
    if (!is_needed()) stop_sleeping();
  }
  finish(after, shared_from_this());
}

template <class Held>
void ConnectionCore<Held>::finish_sending(boost::system::error_code& code) noexcept {
  After after;
  {
    std::lock_guard const lock{mutex_};
    code = {};
    if (is_closed()) {
      code = boost::asio::error::bad_descriptor;
    } else if (auto const done = finish_held(); !done) {
      code = failed(done.error());
    }
    if (has_operation()) begin_turning(after);
  }
  finish(after, shared_from_this());
}

}  // namespace lend::asio::implementation
