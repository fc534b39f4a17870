// SPDX-License-Identifier: MIT OR Apache-2.0
// Set-ups of transports as operations of Boost.Asio's. For `connect.hpp`; any thread.
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/asio/set_up.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/transport.hpp>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace lend::asio::implementation {

/// Not adaptive, under which a transport may have no descriptor to sleep on; and without lent
/// messages of a stream, which does not read them.
template <class Held>
[[nodiscard]] TransportOptions options_for(TransportOptions options) noexcept {
  if (options.wait == Wait::adaptive) options.wait = Wait::event;
  if constexpr (std::is_same_v<Held, ByteStream>) options.lent_bytes_max = 0;
  return options;
}

/// A set's thread makes and uses all that is of the set, and these are made on another.
[[nodiscard]] inline Result<void> check_alone(TransportOptions const& options) {
  if (options.wait_set == nullptr) return success();
  return Error{Errc::invalid_argument,
               "Boost.Asio's streams and messages are of no WaitSet: leave "
               "TransportOptions::wait_set null"};
}

/// `Connection` is what the handler is given, made of a `Held`, which is made of a transport.
/// `Make` is called with a Deadline and makes that.
template <class Connection, class Held, class Make, class Handler, class Executor>
class MakingJob final : public Job {
 public:
  MakingJob(Make make, Deadline deadline, Handler handler, Executor const& executor,
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
    std::optional<Connection> connection;
    if (!made_)
      made_.emplace(cancellation->is_cancelled()
                        ? Error{Errc::cancelled}
                        : Error{Errc::exhausted, "no thread for the set-up of connections"});
    if (*made_) {
      connection.emplace(executor_, Held{std::move(*made_).value()});
    } else {
      code = code_of(made_->error());
      connection.emplace(executor_, made_->error());
    }
    post_completion(std::move(handler_), executor_, code, std::move(*connection));
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
template <class Connection, class Held, class Executor>
class MakingInitiation {
 public:
  using executor_type = Executor;
  MakingInitiation(std::shared_ptr<SetUp> set_up, Executor const& executor, Deadline deadline,
                   Keeps keeps)
      : set_up_{std::move(set_up)}, executor_{executor}, deadline_{deadline}, keeps_{keeps} {}
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  template <class Handler, class Make>
  void operator()(Handler&& handler, Make make) const {
    using Made = MakingJob<Connection, Held, Make, std::decay_t<Handler>, Executor>;
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

/// async_initiate(), for what comes to a code and a connection.
template <class Connection, class Held, class Token, class Make, class Executor>
auto begin_making(std::shared_ptr<SetUp> set_up, Executor const& executor, Deadline deadline,
                  Keeps keeps, Make make, Token& token) {
  return boost::asio::async_initiate<Token, void(boost::system::error_code, Connection)>(
      MakingInitiation<Connection, Held, Executor>{std::move(set_up), executor, deadline, keeps},
      token, std::move(make));
}

}  // namespace lend::asio::implementation
