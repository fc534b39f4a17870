// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams to peers, for Boost.Asio's programs: an acceptor, and async_connect().
#pragma once

#include <lend/asio/operation.hpp>
#include <lend/asio/set_up.hpp>
#include <lend/asio/stream.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/connect.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace lend::asio {

namespace implementation {

/// Instead of adaptive, under which a transport may have no descriptor to sleep on.
[[nodiscard]] inline TransportOptions with_descriptor(TransportOptions options) noexcept {
  if (options.wait == Wait::adaptive) options.wait = Wait::event;
  return options;
}

/// `Make` is called with a Deadline and makes the transport.
template <class Make, class Handler, class Executor>
class StreamJob final : public Job {
 public:
  StreamJob(Make make, Deadline deadline, Handler handler, Executor const& executor,
            std::weak_ptr<SetUp> set_up)
      : make_{std::move(make)},
        deadline_{deadline},
        handler_{std::move(handler)},
        executor_{executor},
        announcing_{executor_},
        work_{boost::asio::get_associated_executor(handler_, executor_)} {
    connect_slot(handler_, [set_up = std::move(set_up), cancellation = cancellation] {
      if (auto const owner = set_up.lock()) owner->cancel(*cancellation);
    });
  }

  void work() noexcept override { made_.emplace(make_(deadline_.unless(*cancellation))); }
  void announce(std::weak_ptr<SetUp> set_up) override {
    boost::asio::post(executor_, [set_up = std::move(set_up)] {
      if (auto const owner = set_up.lock()) owner->deliver_done();
    });
  }
  void deliver() override {
    boost::system::error_code code;
    std::optional<basic_stream<Executor>> stream;
    if (!made_)
      made_.emplace(cancellation->is_cancelled()
                        ? Error{Errc::cancelled}
                        : Error{Errc::exhausted, "no thread for the set-up of connections"});
    if (*made_) {
      stream.emplace(executor_, ByteStream{std::move(*made_).value()});
    } else {
      code = code_of(made_->error());
      stream.emplace(executor_, made_->error());
    }
    post_completion(std::move(handler_), executor_, code, std::move(*stream));
  }

 private:
  Make make_;
  Deadline deadline_;
  Handler handler_;
  Executor executor_;
  boost::asio::executor_work_guard<Executor> announcing_;
  boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler, Executor>> work_;
  std::optional<Result<AnyTransport>> made_{};
};

enum class Keeps : bool { no, yes };

/// Puts the job for a handler to `set_up`.
template <class Make, class Executor>
class StreamInitiation {
 public:
  using executor_type = Executor;
  StreamInitiation(std::shared_ptr<SetUp> set_up, Executor const& executor, Deadline deadline,
                   Keeps keeps)
      : set_up_{std::move(set_up)}, executor_{executor}, deadline_{deadline}, keeps_{keeps} {}
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  template <class Handler>
  void operator()(Handler&& handler, Make make) const {
    using Made = StreamJob<Make, std::decay_t<Handler>, Executor>;
    auto const set_up = set_up_;  // add() may run what destroys this
    set_up->add(std::make_unique<Made>(std::move(make), deadline_, std::forward<Handler>(handler),
                                       executor_, set_up),
                keeps_ == Keeps::yes);
  }

 private:
  std::shared_ptr<SetUp> set_up_;
  Executor executor_;
  Deadline deadline_;
  Keeps keeps_;
};

/// async_initiate(), for what comes to a code and a stream.
template <class Token, class Make, class Executor>
auto begin_stream(std::shared_ptr<SetUp> set_up, Executor const& executor, Deadline deadline,
                  Keeps keeps, Make make, Token& token) {
  using Signature = void(boost::system::error_code, basic_stream<Executor>);
  return boost::asio::async_initiate<Token, Signature>(
      StreamInitiation<Make, Executor>{std::move(set_up), executor, deadline, keeps}, token,
      std::move(make));
}

template <class Executor>
[[nodiscard]] boost::asio::execution_context& context_of(Executor const& executor) noexcept {
  return boost::asio::query(executor, boost::asio::execution::context);
}

}  // namespace implementation

/// Accepts streams at a TransportListener. One thread at a time, or in a strand.
///
/// lend sets connections up in calls that block: they run on a thread of the acceptor, which sleeps
/// as long as no peer comes. Wait::adaptive is taken for Wait::event, so that streams that wait
/// sleep on their descriptor.
///
///     auto stream = co_await acceptor.async_accept(boost::asio::use_awaitable);
template <class Executor = boost::asio::any_io_executor>
class basic_acceptor {
 public:
  using executor_type = Executor;

  basic_acceptor(Executor const& executor, TransportListener listener, ProtectionDomain domain,
                 TransportOptions const& options = {})
      : executor_{executor},
        parts_{std::make_shared<Parts>(std::move(listener), std::move(domain),
                                       implementation::with_descriptor(options))},
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

  /// Waits for one peer; several accepts are served in order.
  /// Errors:  operation_aborted  cancelled; else those of TransportListener::accept(), by
  ///          code_of(). The stream is then not open, and its last_error() has the whole error.
  template <class Token = boost::asio::default_completion_token_t<Executor>>
  auto async_accept(Token&& token = {}) {
    return implementation::begin_stream(
        set_up_, executor_, Deadline::never(), implementation::Keeps::no,
        [parts = parts_](Deadline deadline) {
          return parts->listener.accept(parts->domain, parts->options, deadline);
        },
        token);
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
  auto& context = implementation::context_of(executor);
  auto const deadline = within(options.patience);
  options.transport = implementation::with_descriptor(options.transport);
  return implementation::begin_stream(
      std::make_shared<implementation::SetUp>(context), executor, deadline,
      implementation::Keeps::yes,
      [address = std::move(address), domain = std::move(domain),
       options = std::move(options)](Deadline until) {
        return connect_transport(address, domain, options.transport, until, options.exchange);
      },
      token);
}

/// With the default options.
template <class Token>
auto async_connect(boost::asio::any_io_executor const& executor, std::string address,
                   ProtectionDomain domain, Token&& token) {
  return async_connect(executor, std::move(address), std::move(domain), ConnectOptions{},
                       std::forward<Token>(token));
}

}  // namespace lend::asio
