// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams and messages to peers, for Boost.Asio's programs: an acceptor, and async_connect().
#pragma once

#include <lend/asio/making.hpp>
#include <lend/asio/messages.hpp>
#include <lend/asio/set_up.hpp>
#include <lend/asio/stream.hpp>
#include <lend/base/deadline.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/connect.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/query.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace lend::asio {

namespace implementation {

template <class Executor>
[[nodiscard]] boost::asio::execution_context& context_of(Executor const& executor) noexcept {
  return boost::asio::query(executor, boost::asio::execution::context);
}

}  // namespace implementation

/// Accepts streams and messages at a TransportListener. One thread at a time, or in a strand.
///
/// lend sets connections up in calls that block: they run on a thread of the acceptor, which sleeps
/// as long as no peer comes. Wait::adaptive is taken for Wait::event, so that what waits sleeps on
/// its descriptor.
///
///     auto stream = co_await acceptor.async_accept(boost::asio::use_awaitable);
template <class Executor = boost::asio::any_io_executor>
class basic_acceptor {
 public:
  using executor_type = Executor;

  basic_acceptor(Executor const& executor, TransportListener listener, ProtectionDomain domain,
                 TransportOptions const& options = {})
      : executor_{executor},
        parts_{std::make_shared<Parts>(std::move(listener), std::move(domain), options)},
        set_up_{std::make_shared<implementation::SetUp>(implementation::context_of(executor))} {}
  basic_acceptor(basic_acceptor&&) = default;
  basic_acceptor& operator=(basic_acceptor&& other) noexcept {
    if (this == &other) return *this;
    stop();
    executor_ = other.executor_;
    parts_ = std::move(other.parts_);
    set_up_ = std::move(other.set_up_);
    return *this;
  }
  /// Accepts that wait end with operation_aborted. Waits up to Deadline::look_interval, and for the
  /// calls of a set-up that has begun.
  ~basic_acceptor() { stop(); }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  /// With the chosen port.
  [[nodiscard]] std::string const& address() const noexcept { return parts_->listener.address(); }

  /// Waits for one peer; several accepts are served in order: void(error_code, basic_stream).
  /// Errors:  operation_aborted  cancelled; else those of TransportListener::accept(), by
  ///          code_of(). The stream is then not open, and its last_error() has the whole error.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_accept(Token&& token = {}) {
    return accept<basic_stream<Executor>, ByteStream>(token);
  }
  /// The same, of messages: void(error_code, basic_messages).
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_accept_messages(Token&& token = {}) {
    return accept<basic_messages<Executor>, AnyTransport>(token);
  }
  /// Accepts that wait end with operation_aborted.
  void cancel() noexcept { set_up_->cancel(); }

 private:
  struct Parts {
    Parts(TransportListener own_listener, ProtectionDomain own_domain,
          TransportOptions const& own_options)
        : listener{std::move(own_listener)}, domain{std::move(own_domain)}, options{own_options} {}
    TransportListener listener;
    ProtectionDomain domain;
    TransportOptions options;
  };

  template <class Connection, class Held, class Token>
  auto accept(Token& token) {
    return implementation::begin_making<Connection, Held>(
        set_up_, executor_, Deadline::never(), implementation::Keeps::no,
        [parts = parts_](Deadline deadline) -> Result<AnyTransport> {
          LEND_TRYV(implementation::check_alone(parts->options));
          return parts->listener.accept(
              parts->domain, implementation::options_for<Held>(parts->options), deadline);
        },
        token);
  }
  // A coroutine that waits owns the set-up, too.
  void stop() noexcept {
    if (set_up_ != nullptr) set_up_->stop();
  }

  Executor executor_;
  std::shared_ptr<Parts> parts_;
  std::shared_ptr<implementation::SetUp> set_up_;
};

using acceptor = basic_acceptor<>;

struct ConnectOptions {
  TransportOptions transport{};
  ExchangeOptions exchange{};
  std::chrono::nanoseconds patience = std::chrono::seconds{30};  ///< from the call on
};

namespace implementation {

template <class Connection, class Held, class Token>
auto connect(boost::asio::any_io_executor const& executor, std::string address,
             ProtectionDomain domain, ConnectOptions options, Token& token) {
  auto& context = context_of(executor);
  auto const deadline = within(options.patience);
  options.transport = options_for<Held>(options.transport);
  return begin_making<Connection, Held>(
      std::make_shared<SetUp>(context), executor, deadline, Keeps::yes,
      [address = std::move(address), domain = std::move(domain),
       options = std::move(options)](Deadline until) -> Result<AnyTransport> {
        LEND_TRYV(check_alone(options.transport));
        return connect_transport(address, domain, options.transport, until, options.exchange);
      },
      token);
}

}  // namespace implementation

/// Connects to the peer that listens at `address`, as connect_transport(), on a thread of its own
/// for each call; as to Wait::adaptive as the acceptor. void(error_code, stream).
/// Errors:  timed_out  no peer within `patience`; Errc::exhausted  also: no thread; else those of
///          connect_transport(), by code_of(). The stream is then not open, and its last_error()
///          has the whole error.
///
/// g++ 12 destroys a braced temporary in a co_await wrongly: give the options a name before.
template <class Token>
auto async_connect(boost::asio::any_io_executor const& executor, std::string address,
                   ProtectionDomain domain, ConnectOptions options, Token&& token) {
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
