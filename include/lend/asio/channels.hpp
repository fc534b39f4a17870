// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels to peers, for Boost.Asio's programs. One thread, or a strand.
#pragma once

#include <lend/asio/connect_steps.hpp>
#include <lend/asio/making_core.hpp>
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
#include <tuple>
#include <utility>

namespace lend::asio {

namespace implementation {

/// For a handler's values: what was made, if anything.
struct AsMade {
  template <class Made>
  [[nodiscard]] auto operator()(boost::system::error_code code, Made made,
                                std::optional<Error> const&) const {
    return std::tuple{code, std::move(made)};
  }
};

template <class Executor>
using AcceptChannel = MakingInitiation<MakingCore<Listener>, AsMade, Executor>;
template <class Executor>
using ConnectChannel = MakingInitiation<MakingCore<Connecting>, AsMade, Executor>;

}  // namespace implementation

/// Accepts channels at a Listener, without a thread: any number of clients at a time, so that one
/// that is slow or silent delays no other. For streams and messages take basic_acceptor of
/// `connect.hpp`.
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
  using Core = implementation::MakingCore<Listener>;

 public:
  using executor_type = Executor;
  using error_code = boost::system::error_code;

  basic_channel_acceptor(Executor const& executor, Listener listener, Listener::Prepare prepare,
                         ListenerLimits const& limits = {})
      : basic_channel_acceptor{executor, begun(std::move(listener), std::move(prepare), limits)} {}
  basic_channel_acceptor(basic_channel_acceptor const&) = delete;
  basic_channel_acceptor& operator=(basic_channel_acceptor const&) = delete;
  /// Accepts that wait end with operation_aborted, and the Listener ends.
  ~basic_channel_acceptor() { core_->close(); }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  /// With the chosen port; empty: it could not begin.
  [[nodiscard]] std::string const& address() const noexcept { return address_; }

  /// Waits for one client; several accepts are served in order:
  /// void(error_code, std::optional<Accepted<Channel>>), empty at an error.
  /// Errors:  operation_aborted  cancelled; else those of Listener::begin() and Listener::poll(),
  ///          by code_of(); last_error() has the whole error.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_accept(Token&& token = {}) {
    return boost::asio::async_initiate<Token, void(error_code, std::optional<Accepted<Channel>>)>(
        implementation::AcceptChannel<Executor>{core_, {}, executor_}, token);
  }
  /// The last client that was rejected, and why; empty: none.
  [[nodiscard]] std::string last_rejected() const { return core_->last_rejected(); }
  /// Accepts that wait end with operation_aborted; nothing else changes.
  void cancel() noexcept { core_->cancel(); }
  /// The whole error behind the last code but for that of a cancel, if any.
  [[nodiscard]] std::optional<Error> last_error() const noexcept { return core_->last_error(); }

 private:
  basic_channel_acceptor(Executor const& executor, Result<Listener> begun)
      : executor_{executor},
        address_{begun ? begun.value().address() : ""},
        core_{std::make_shared<Core>(executor, std::move(begun))} {}
  [[nodiscard]] static Result<Listener> begun(Listener listener, Listener::Prepare prepare,
                                              ListenerLimits const& limits) {
    LEND_TRYV(listener.begin(std::move(prepare), limits));
    return listener;
  }

  Executor executor_;
  std::string address_;
  std::shared_ptr<Core> core_;
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
  auto core = std::make_shared<implementation::MakingCore<Connecting>>(
      executor,
      Connecting::begin(address, std::move(prepared), within(options.patience), options.exchange));
  return boost::asio::async_initiate<Token,
                                     void(boost::system::error_code, std::optional<Channel>)>(
      implementation::ConnectChannel<boost::asio::any_io_executor>{std::move(core), {}, executor},
      token);
}
/// With the default options.
template <class Token>
auto async_connect_channel(boost::asio::any_io_executor const& executor, std::string const& address,
                           PreparedChannel prepared, Token&& token) {
  return async_connect_channel(executor, address, std::move(prepared), ConnectOptions{},
                               std::forward<Token>(token));
}

}  // namespace lend::asio
