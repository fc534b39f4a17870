// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels to peers, for Boost.Asio's programs. One thread, or a strand.
#pragma once

#include <lend/asio/channels_core.hpp>
#include <lend/asio/connect.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/network/connect.hpp>
#include <lend/network/connecting.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/system/error_code.hpp>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace lend::asio {

namespace implementation {

/// Of what `Core` comes to next.
template <class Core, class Executor>
class NextInitiation {
 public:
  using executor_type = Executor;
  NextInitiation(std::shared_ptr<Core> core, Executor const& executor)
      : core_{std::move(core)}, executor_{executor} {}
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  template <class Handler>
  void operator()(Handler&& handler) const {
    auto const core = core_;  // the handler may destroy this on another thread
    std::decay_t<Handler> own{std::forward<Handler>(handler)};
    core->start(typename Core::Next{core}, std::move(own), executor_);
  }

 private:
  std::shared_ptr<Core> core_;
  Executor executor_;
};

using ConnectingCore = ChannelsCore<Connecting, Channel>;
using ListeningCore = ChannelsCore<Listener, Accepted<Channel>>;

}  // namespace implementation

/// Accepts channels at a Listener, without a thread: any number of clients at a time, so that one
/// that is slow or silent delays no other. For streams and messages take basic_acceptor.
///
/// `prepare` makes an end for each client, also of a WaitSet whose channels basic_waits awaits; it
/// does not throw, and calls nothing of this. Clients are served while an accept waits. Those that
/// are connected, and that no accept waits for, are kept for the next one.
///
/// The executor is a strand or of a context that one thread runs: `prepare` is called and channels
/// are connected there, and so it is where their WaitSet is used.
///
///     lend::asio::channel_acceptor acceptor{io.get_executor(), std::move(listener),
///         [&](Arrival const&) { return prepare_channel(domain, options); }};
///     auto accepted = co_await acceptor.async_accept(boost::asio::use_awaitable);
template <class Executor = boost::asio::any_io_executor>
class basic_channel_acceptor {
 public:
  using executor_type = Executor;
  using error_code = boost::system::error_code;

  basic_channel_acceptor(Executor const& executor, Listener listener, Listener::Prepare prepare,
                         ListenerLimits const& limits = {})
      : executor_{executor},
        address_{listener.address()},
        core_{std::make_shared<implementation::ListeningCore>(
            executor, begun(std::move(listener), std::move(prepare), limits))} {}
  basic_channel_acceptor(basic_channel_acceptor const&) = delete;
  basic_channel_acceptor& operator=(basic_channel_acceptor const&) = delete;
  /// Accepts that wait end with operation_aborted, and the Listener ends.
  ~basic_channel_acceptor() { core_->close(); }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  /// With the chosen port.
  [[nodiscard]] std::string const& address() const noexcept { return address_; }

  /// Waits for one client; several accepts are served in order:
  /// void(error_code, std::optional<Accepted<Channel>>), empty at an error.
  /// Errors:  operation_aborted  cancelled; else those of Listener::begin() and Listener::poll(),
  ///          by code_of(); last_error() has the whole error.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_accept(Token&& token = {}) {
    using Next = implementation::NextInitiation<implementation::ListeningCore, Executor>;
    return boost::asio::async_initiate<Token, void(error_code, std::optional<Accepted<Channel>>)>(
        Next{core_, executor_}, token);
  }
  /// Accepts that wait end with operation_aborted; nothing else changes.
  void cancel() noexcept { core_->cancel(); }
  /// The whole error behind the last code but for that of a cancel, if any.
  [[nodiscard]] std::optional<Error> last_error() const noexcept { return core_->last_error(); }

 private:
  [[nodiscard]] static Result<Listener> begun(Listener listener, Listener::Prepare prepare,
                                              ListenerLimits const& limits) {
    LEND_TRYV(listener.begin(std::move(prepare), limits));
    return listener;
  }

  Executor executor_;
  std::string address_;
  std::shared_ptr<implementation::ListeningCore> core_;
};

using channel_acceptor = basic_channel_acceptor<>;

/// Connects `prepared` to the Listener at `address`, which is an IP address and a port, or
/// "unix:...", without a thread: void(error_code, std::optional<Channel>), empty at an error. The
/// options' `transport` is not used. The executor is as basic_channel_acceptor's.
///
/// Consumes `prepared`, also when it fails: one that is cancelled has given it up when the handler
/// is called.
/// Errors:  operation_aborted  cancelled; timed_out  no peer within `patience`; else those of
///          Connecting, by code_of(): lend::connect() has them with their text.
template <class Token>
auto async_connect_channel(boost::asio::any_io_executor const& executor, std::string const& address,
                           PreparedChannel prepared, ConnectOptions const& options, Token&& token) {
  using Next =
      implementation::NextInitiation<implementation::ConnectingCore, boost::asio::any_io_executor>;
  auto core = std::make_shared<implementation::ConnectingCore>(
      executor,
      Connecting::begin(address, std::move(prepared), within(options.patience), options.exchange));
  return boost::asio::async_initiate<Token,
                                     void(boost::system::error_code, std::optional<Channel>)>(
      Next{std::move(core), executor}, token);
}
/// With the default options.
template <class Token>
auto async_connect_channel(boost::asio::any_io_executor const& executor, std::string const& address,
                           PreparedChannel prepared, Token&& token) {
  return async_connect_channel(executor, address, std::move(prepared), ConnectOptions{},
                               std::forward<Token>(token));
}

}  // namespace lend::asio
