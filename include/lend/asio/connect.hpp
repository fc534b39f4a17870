// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams and messages to peers, for Boost.Asio's programs: an acceptor, and async_connect().
#pragma once

#include <lend/asio/connect_steps.hpp>
#include <lend/asio/making_core.hpp>
#include <lend/asio/messages.hpp>
#include <lend/asio/stream.hpp>
#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/connect.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>

#include <memory>
#include <string>
#include <utility>

namespace lend::asio {

/// Accepts streams and messages at a TransportListener, without a thread: any number of clients at
/// a time, so that one that is slow or silent delays no other. One thread at a time, or a strand.
///
/// Wait::adaptive is taken for Wait::event, so that what waits sleeps on its descriptor.
///
///     auto stream = co_await acceptor.async_accept(boost::asio::use_awaitable);
///
/// The traps: clients are served while an accept waits; between accepts they stand still, and after
/// 30 s they give up. Those that are connected by then are kept for the next accept. The memory of
/// each is registered in a turn of the context; on RoCE the kernel may take 1 s there to find a
/// client's hardware address.
template <class Executor = boost::asio::any_io_executor>
class basic_acceptor {
  using Core = implementation::MakingCore<TransportListener>;

 public:
  using executor_type = Executor;

  /// Errors:  those of TransportListener::begin() are each accept's; and
  ///          invalid_argument  the options name a WaitSet or a MessagePool, whose transports sleep
  ///                            on the set's descriptor.
  basic_acceptor(Executor const& executor, TransportListener listener, ProtectionDomain domain,
                 TransportOptions const& options = {}, ListenerLimits const& limits = {})
      : basic_acceptor{executor, begun(std::move(listener), std::move(domain), options, limits),
                       implementation::check_stream(options)} {}
  basic_acceptor(basic_acceptor&&) = default;
  basic_acceptor& operator=(basic_acceptor&& other) noexcept {
    if (this == &other) return *this;
    stop();
    executor_ = other.executor_;
    address_ = std::move(other.address_);
    allows_streams_ = std::move(other.allows_streams_);
    core_ = std::move(other.core_);
    return *this;
  }
  /// Accepts that wait end with operation_aborted, and the listener ends.
  ~basic_acceptor() { stop(); }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  /// With the chosen port; empty: it could not begin.
  [[nodiscard]] std::string const& address() const noexcept { return address_; }

  /// Waits for one peer; several accepts are served in order: void(error_code, basic_stream).
  /// Errors:  operation_aborted  cancelled; those of TransportListener::poll(), by code_of(), after
  ///          which another accept may succeed; and
  ///          invalid_argument   TransportOptions::lent_bytes_max is not 0, which is for messages.
  ///          The stream is then not open, and its last_error() has the whole error.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_accept(Token&& token = {}) {
    return accept<basic_stream<Executor>, ByteStream>(allows_streams_, token);
  }
  /// The same, of messages: void(error_code, basic_messages).
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_accept_messages(Token&& token = {}) {
    return accept<basic_messages<Executor>, AnyTransport>(success(), token);
  }
  /// The last client that was rejected, and why; empty: none.
  [[nodiscard]] std::string last_rejected() const { return core_->last_rejected(); }
  /// Accepts that wait end with operation_aborted; nothing else changes.
  void cancel() noexcept { core_->cancel(); }

 private:
  basic_acceptor(Executor const& executor, Result<TransportListener> begun,
                 Result<void> allows_streams)
      : executor_{executor},
        address_{begun ? begun.value().address() : ""},
        allows_streams_{std::move(allows_streams)},
        core_{std::make_shared<Core>(executor, std::move(begun))} {}
  [[nodiscard]] static Result<TransportListener> begun(TransportListener listener,
                                                       ProtectionDomain domain,
                                                       TransportOptions const& options,
                                                       ListenerLimits const& limits) {
    LEND_TRYV(implementation::check_alone(options));
    LEND_TRYV(listener.begin(
        std::move(domain),
        [own = implementation::that_sleep(options)](Arrival const&) -> Result<TransportOptions> {
          return own;
        },
        limits));
    return listener;
  }

  template <class Connection, class Held, class Token>
  auto accept(Result<void> const& allowed, Token& token) {
    using As = implementation::AsConnection<Connection, Held, Executor>;
    return boost::asio::async_initiate<Token, void(boost::system::error_code, Connection)>(
        implementation::MakingInitiation<Core, As, Executor>{core_, As{executor_}, executor_,
                                                             allowed},
        token);
  }
  void stop() noexcept {
    if (core_ != nullptr) core_->close();
  }

  Executor executor_;
  std::string address_;
  Result<void> allows_streams_;
  std::shared_ptr<Core> core_;
};

using acceptor = basic_acceptor<>;

/// Connects to the peer that listens at `address`, as connect_transport(), without a thread of
/// lend's: void(error_code, stream). As to Wait::adaptive as the acceptor.
///
/// Asio's resolver looks a name up, until it is known; then its addresses are tried in turn. A
/// context looks up one name at a time. Neither `patience` nor a cancellation ends a look-up that
/// is under way: the connect ends after it.
/// Errors:  timed_out  no peer within `patience`; operation_aborted  cancelled; else those of
///          TransportConnecting, by code_of(). The stream is then not open, and its last_error()
///          has the whole error.
///
/// g++ 12 destroys a braced temporary in a co_await wrongly: give the options a name before.
template <class Token>
auto async_connect(boost::asio::any_io_executor const& executor, std::string address,
                   ProtectionDomain domain, ConnectOptions options, Token&& token) {
  options.transport.lent_bytes_max = 0;  // a stream reads none
  return implementation::connect<stream, ByteStream>(executor, std::move(address),
                                                     std::move(domain), std::move(options), token);
}
/// With the default options.
template <class Token>
auto async_connect(boost::asio::any_io_executor const& executor, std::string address,
                   ProtectionDomain domain, Token&& token) {
  return async_connect(executor, std::move(address), std::move(domain), ConnectOptions{},
                       std::forward<Token>(token));
}

/// The same, of messages: void(error_code, messages).
template <class Token>
auto async_connect_messages(boost::asio::any_io_executor const& executor, std::string address,
                            ProtectionDomain domain, ConnectOptions options, Token&& token) {
  return implementation::connect<messages, AnyTransport>(
      executor, std::move(address), std::move(domain), std::move(options), token);
}
/// With the default options.
template <class Token>
auto async_connect_messages(boost::asio::any_io_executor const& executor, std::string address,
                            ProtectionDomain domain, Token&& token) {
  return async_connect_messages(executor, std::move(address), std::move(domain), ConnectOptions{},
                                std::forward<Token>(token));
}

}  // namespace lend::asio
