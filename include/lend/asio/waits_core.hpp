// SPDX-License-Identifier: MIT OR Apache-2.0
// A set or a group in an execution context, and what is awaited of it. For `waits.hpp`. The thread
// of the set or group, but for what Turning says.
#pragma once

#include <lend/asio/turning.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/set_calls.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/group/group.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace lend::asio::implementation {

/// A sleep may miss what a blocking call of the program took, or a break: not for longer than this.
inline constexpr std::chrono::milliseconds look_pause{100};

class WaitsCore : public Turning {
 public:
  template <class Wait, class Handler, class Executor>
  void start(Wait&& wait, Handler handler, Executor const& executor) {
    Turning::start(std::forward<Wait>(wait), std::move(handler), executor);
  }
  /// Waits end with operation_aborted, and nothing of the set or group is used from now on.
  void close() noexcept {
    After after;
    {
      std::lock_guard const lock{mutex_};
      is_closed_ = true;
      take_all(boost::asio::error::operation_aborted, after);
      stop_sleeping();
      descriptor_.reset();
    }
    finish(after, shared_from_this());
  }

 protected:
  using Turning::Turning;

  // ---- of the set or group, with the mutex ----

  /// Whether anything came.
  [[nodiscard]] virtual Result<bool> poll_source() noexcept = 0;
  [[nodiscard]] virtual Result<bool> arm_source() noexcept = 0;
  [[nodiscard]] virtual int descriptor_of_source() const noexcept = 0;
  /// Whether something may come of which the descriptor says nothing.
  [[nodiscard]] virtual bool is_partly_silent() const noexcept = 0;
  [[nodiscard]] virtual Result<std::size_t> list(std::span<Ready> into) noexcept = 0;

 private:
  friend struct WaitBase;
  friend class WorkWait;
  friend class ReadyWait;

  [[nodiscard]] bool advance(After& after) noexcept override {
    if (is_closed_) return false;
    auto const changed = poll_source();
    attempt_all(after);
    return changed && changed.value();
  }
  [[nodiscard]] std::optional<Rest> arm() noexcept override {
    auto const may_sleep = arm_source();
    if (may_sleep && !may_sleep.value()) return std::nullopt;
    Clock::time_point const until = Clock::now() + look_pause;
    return Rest{may_sleep.has_value(), is_partly_silent() ? (std::min)(until, next_nap()) : until};
  }
  [[nodiscard]] Result<int> own_descriptor() const noexcept override {
    return descriptor_of_source();
  }

  // For as many as await a halo at once; more are allocated.
  std::array<OperationRoom, 4> rooms_{};
  bool is_closed_ = false;
};

class SetWaits final : public WaitsCore {
 public:
  SetWaits(boost::asio::any_io_executor const& executor, WaitSet& set)
      : WaitsCore{executor}, set_{&set} {}

 private:
  [[nodiscard]] Result<bool> poll_source() noexcept override {
    return channel::SetCalls::poll(*set_);
  }
  [[nodiscard]] Result<bool> arm_source() noexcept override {
    return channel::SetCalls::arm(*set_);
  }
  [[nodiscard]] int descriptor_of_source() const noexcept override { return set_->descriptor(); }
  [[nodiscard]] bool is_partly_silent() const noexcept override { return false; }
  [[nodiscard]] Result<std::size_t> list(std::span<Ready> into) noexcept override {
    LEND_TRY(ready, set_->poll(into));
    return ready.size();
  }

  WaitSet* set_;
};

class GroupWaits final : public WaitsCore {
 public:
  GroupWaits(boost::asio::any_io_executor const& executor, Group& group)
      : WaitsCore{executor}, group_{&group} {}

 private:
  [[nodiscard]] Result<bool> poll_source() noexcept override { return group_->poll(); }
  [[nodiscard]] Result<bool> arm_source() noexcept override { return group_->arm(); }
  [[nodiscard]] int descriptor_of_source() const noexcept override { return group_->descriptor(); }
  [[nodiscard]] bool is_partly_silent() const noexcept override {
    return !group_->look_again().is_never();
  }
  [[nodiscard]] Result<std::size_t> list(std::span<Ready> /*into*/) noexcept override {
    return Error{Errc::invalid_argument,
                 "these waits are of a group, which takes the news of its channels itself: await "
                 "work of its Peers"};
  }

  Group* group_;
};

// ---- what is awaited ----

struct WaitBase {
  /// Of a first attempt: whether it is not to be made.
  [[nodiscard]] bool is_refused() noexcept {
    if (core->is_closed_) code = boost::asio::error::operation_aborted;
    return core->is_closed_;
  }
  void end(boost::system::error_code why) noexcept { code = why; }
  [[nodiscard]] bool fail(Error error) noexcept {
    code = core->failed(std::move(error));
    return true;
  }
  [[nodiscard]] OperationRoom* room() const noexcept {
    // Acquire pairs with the release of the operation that was there.
    for (auto& room : core->rooms_)
      if (!room.is_used.load(std::memory_order_acquire)) return &room;
    return nullptr;
  }

  WaitsCore* core;
  boost::system::error_code code{};
};

class WorkWait : public WaitBase {
 public:
  WorkWait(WaitsCore& own, PendingWork& work) noexcept : WaitBase{&own}, work_{&work} {}

  [[nodiscard]] bool begin() noexcept {
    if (is_refused()) return true;
    if (!channel::SetCalls::is_of_set(*work_, core->descriptor_of_source()))
      return fail({Errc::invalid_argument,
                   "this work is of a channel that is not of the set or group of these waits: "
                   "build the channel with its wait_set()"});
    return ask();
  }
  [[nodiscard]] bool attempt() noexcept { return channel::SetCalls::may_be_over(*work_) && ask(); }
  [[nodiscard]] auto values() const noexcept { return std::tuple{code, success_}; }

 private:
  [[nodiscard]] bool ask() noexcept {
    auto const polled = work_->poll();
    if (!polled) return fail(polled.error());
    if (polled.value()) success_ = *polled.value();
    return polled.value().has_value();
  }

  PendingWork* work_;
  WorkSuccess success_{};
};

/// Of a PendingCollective or an Exchange.
template <class Handle>
class OverWait : public WaitBase {
 public:
  OverWait(WaitsCore& own, Handle& handle) noexcept : WaitBase{&own}, handle_{&handle} {}

  [[nodiscard]] bool begin() noexcept { return is_refused() || attempt(); }
  [[nodiscard]] bool attempt() noexcept {
    auto const polled = handle_->poll();
    return polled ? polled.value() : fail(polled.error());
  }
  [[nodiscard]] auto values() const noexcept { return std::tuple{code}; }

 private:
  Handle* handle_;
};

class ReadyWait : public WaitBase {
 public:
  ReadyWait(WaitsCore& own, std::span<Ready> into) noexcept : WaitBase{&own}, into_{into} {}

  [[nodiscard]] bool begin() noexcept { return is_refused() || attempt(); }
  [[nodiscard]] bool attempt() noexcept {
    auto const listed = core->list(into_);
    if (!listed) return fail(listed.error());
    count_ = listed.value();
    return count_ > 0;
  }
  [[nodiscard]] auto values() const noexcept { return std::tuple{code, count_}; }

 private:
  std::span<Ready> into_;
  std::size_t count_ = 0;
};

}  // namespace lend::asio::implementation
