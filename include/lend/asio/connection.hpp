// SPDX-License-Identifier: MIT OR Apache-2.0
// What streams and messages are for Boost.Asio's programs, but for their operations. One thread at
// a time, or in a strand.
#pragma once

#include <lend/asio/operation.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lend::asio {

/// What basic_stream and basic_messages have in common: a connection whose operations wait in an
/// execution context, one in each direction.
template <class Executor, class Core>
class basic_connection {
 public:
  using executor_type = Executor;
  using error_code = boost::system::error_code;

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr && core_->is_open(); }

  /// Operations that wait end with operation_aborted; nothing else changes.
  void cancel() noexcept {
    if (core_ != nullptr) core_->cancel();
  }
  /// Cancels. The connection is kept until the peer's device has all that was sent, at most 1 s,
  /// during which the context has work; if the context goes, so does the connection.
  void close() noexcept {
    if (core_ != nullptr) core_->close();
  }

  /// Operations that begin from now on end with timed_out when this has passed.
  void expires_after(std::chrono::nanoseconds time) noexcept {
    if (core_ != nullptr) core_->expires_at(within(time).at());
  }
  void expires_never() noexcept {
    if (core_ != nullptr) core_->expires_at(Deadline::never().at());
  }
  /// How long an operation polls before it sleeps: 20 µs by default, or 0 on one CPU. More is less
  /// latency and more load.
  void spin_for(std::chrono::nanoseconds time) noexcept {
    if (core_ != nullptr) core_->spin_for(time);
  }
  /// The whole error behind the last code but for eof and those of a cancel or expiry, if any.
  [[nodiscard]] std::optional<Error> last_error() const noexcept {
    return core_ != nullptr ? core_->last_error() : why_not_;
  }

 protected:
  explicit basic_connection(Executor const& executor) : executor_{executor} {}
  basic_connection(Executor const& executor, std::shared_ptr<Core> core)
      : executor_{executor}, core_{std::move(core)} {}
  basic_connection(Executor const& executor, Error why)
      : executor_{executor}, why_not_{std::move(why)} {}
  basic_connection(basic_connection&&) = default;
  basic_connection& operator=(basic_connection&& other) noexcept {
    if (this == &other) return *this;
    close();
    executor_ = other.executor_;
    core_ = std::exchange(other.core_, nullptr);
    why_not_ = other.why_not_;
    return *this;
  }
  /// As close().
  ~basic_connection() { close(); }

  /// async_initiate(), for a `Work` that is made of the core and these.
  template <class Signature, class Work, class Token, class... Parts>
  auto begin(Token& token, Parts const&... parts) {
    return boost::asio::async_initiate<Token, Signature>(Initiation<Work>{*this}, token, parts...);
  }
  /// Null: it is not open, and was never.
  [[nodiscard]] Core* core() const noexcept { return core_.get(); }

 private:
  template <class Work>
  class Initiation {
   public:
    using executor_type = Executor;
    explicit Initiation(basic_connection const& connection) : connection_{&connection} {}
    [[nodiscard]] executor_type get_executor() const noexcept {
      return connection_->get_executor();
    }
    template <class Handler, class... Parts>
    void operator()(Handler&& handler, Parts const&... parts) const {
      // The handler may destroy this on another thread before the call returns.
      auto const core = connection_->core_;
      auto const executor = connection_->executor_;
      std::decay_t<Handler> own{std::forward<Handler>(handler)};
      Work work{core.get(), parts...};
      if (core != nullptr) return core->start(std::move(work), std::move(own), executor);
      work.end(boost::asio::error::bad_descriptor);
      std::apply(
          [&](auto... each) {
            implementation::post_completion(std::move(own), executor, std::move(each)...);
          },
          work.values());
    }

   private:
    basic_connection const* connection_;
  };

  Executor executor_;
  std::shared_ptr<Core> core_{};
  std::optional<Error> why_not_{};
};

}  // namespace lend::asio
