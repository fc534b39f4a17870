// SPDX-License-Identifier: MIT OR Apache-2.0
// Handles of channels and of groups for Boost.Asio's programs. The thread of the set or group.
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/waits_core.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/group/exchange.hpp>
#include <lend/group/group.hpp>
#include <lend/group/group_scope.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace lend::asio {

/// Awaits what was posted on channels of a WaitSet, or by a Group and its Peers.
///
/// It waits as a stream does: in posted turns for spin_for(), then on the descriptor of the set or
/// group, without a thread. Work is posted by scopes as ever, and its loans end as ever: **a wait
/// that is cancelled or times out ends nothing but itself**, and may be made again. What is awaited
/// neither moves nor ends before the handler is called or destroyed.
///
/// The executor is a strand or of a context that one thread runs: turns use the set or group, and
/// so its other calls are made there, too. The set or group outlives this, and does not move.
/// Short messages of an adaptive group wake no thread: a wait that sleeps looks for them after 50
/// µs, then half as often each time, down to every 10 ms; with Wait::event they wake it.
///
///     lend::asio::waits waits{io.get_executor(), set};
///     LEND_TRY(work, scope.post_receive(memory.scatter(0, 64)));
///     auto const received = co_await waits.async_wait(work, use_awaitable);
template <class Executor = boost::asio::any_io_executor>
class basic_waits {
 public:
  using executor_type = Executor;
  using error_code = boost::system::error_code;
  template <class Other>
  struct rebind_executor {
    using other = basic_waits<Other>;
  };

  basic_waits(Executor const& executor, WaitSet& set LEND_LIFETIMEBOUND)
      : executor_{executor}, core_{std::make_shared<implementation::SetWaits>(executor, set)} {}
  /// Of a Group, whose programs link with lend-group.
  basic_waits(Executor const& executor, Group& group LEND_LIFETIMEBOUND)
      : executor_{executor}, core_{std::make_shared<implementation::GroupWaits>(executor, group)} {}
  basic_waits(basic_waits const&) = delete;
  basic_waits& operator=(basic_waits const&) = delete;
  /// What waits ends with operation_aborted; the work is its scope's.
  ~basic_waits() { core_->close(); }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }

  /// Waits for the result of one work request: void(error_code, WorkSuccess).
  /// Errors:  operation_aborted, timed_out  the wait ended, and the work is as before; else those
  ///          of PendingWork::poll(), by code_of(), and
  ///          invalid_argument  of a channel that is not of this set or group.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_wait(PendingWork& work, Token&& token = {}) {
    using Wait = implementation::WorkWait;
    return begin<void(error_code, WorkSuccess), Wait>(token, &work);
  }
  /// Waits until a collective of the group is over: void(error_code).
  /// Errors:  as above; those of PendingCollective::poll().
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_wait(PendingCollective& collective, Token&& token = {}) {
    using Wait = implementation::OverWait<PendingCollective>;
    return begin<void(error_code), Wait>(token, &collective);
  }
  /// Waits until all rows are over of an exchange of the group's Peers that was started:
  /// void(error_code).
  /// Errors:  as above; those of Exchange::poll().
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_wait(Exchange& exchange, Token&& token = {}) {
    using Wait = implementation::OverWait<Exchange>;
    return begin<void(error_code), Wait>(token, &exchange);
  }
  /// Waits for news of the set, as WaitSet::wait(): void(error_code, std::size_t), how many `into`
  /// has. Of several the first has them. WaitSet::wake() does not end it.
  /// Errors:  as above; those of WaitSet::poll(); invalid_argument  of a group.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_ready(std::span<Ready> into, Token&& token = {}) {
    using Wait = implementation::ReadyWait;
    return begin<void(error_code, std::size_t), Wait>(token, into);
  }

  /// All waits end with operation_aborted.
  void cancel() noexcept { core_->cancel(); }
  /// Waits that begin from now on end with timed_out when this has passed.
  void expires_after(std::chrono::nanoseconds time) noexcept {
    core_->expires_at(within(time).at());
  }
  void expires_never() noexcept { core_->expires_at(Deadline::never().at()); }
  /// How long a wait polls before it sleeps: as basic_stream::spin_for().
  void spin_for(std::chrono::nanoseconds time) noexcept { core_->spin_for(time); }
  /// The whole error behind the last code but for those of a cancel or expiry, if any.
  [[nodiscard]] std::optional<Error> last_error() const noexcept { return core_->last_error(); }

 private:
  template <class Wait>
  class Initiation {
   public:
    using executor_type = Executor;
    explicit Initiation(basic_waits const& waits)
        : executor_{waits.executor_}, core_{waits.core_} {}
    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
    template <class Handler, class Awaited>
    void operator()(Handler&& handler, Awaited awaited) const {
      auto const core = core_;  // the handler may destroy this on another thread
      std::decay_t<Handler> own{std::forward<Handler>(handler)};
      if constexpr (std::is_pointer_v<Awaited>)
        core->start(Wait{*core, *awaited}, std::move(own), executor_);
      else
        core->start(Wait{*core, awaited}, std::move(own), executor_);
    }

   private:
    Executor executor_;
    std::shared_ptr<implementation::WaitsCore> core_;
  };

  template <class Signature, class Wait, class Token, class Awaited>
  auto begin(Token& token, Awaited awaited) {
    return boost::asio::async_initiate<Token, Signature>(Initiation<Wait>{*this}, token, awaited);
  }

  Executor executor_;
  std::shared_ptr<implementation::WaitsCore> core_;
};

using waits = basic_waits<>;

}  // namespace lend::asio
