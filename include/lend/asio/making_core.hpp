// SPDX-License-Identifier: MIT OR Apache-2.0
// What listens or connects, in an execution context: what it makes is awaited, by turns. For
// `channels.hpp` and `connect.hpp`. The executor of what is made, but for what Turning says: a
// channel of a WaitSet is connected where that is used.
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/asio/turning.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>
#include <lend/network/connecting.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/connect.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/system/error_code.hpp>

#include <concepts>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lend::asio::implementation {

template <class Source>
concept Listens = std::same_as<Source, Listener> || std::same_as<Source, TransportListener>;

template <Listens Source>
[[nodiscard]] auto next_of(Source& listener) {
  return listener.poll();
}
template <class Source>
[[nodiscard]] auto next_of(Source& connecting) {
  return connecting.advance();
}

/// A `Source` makes something now and then, and fails.
template <class Source>
class MakingCore final : public Turning {
 public:
  using Made = typename decltype(next_of(std::declval<Source&>()))::value_type;  // optional

  /// An error is that of every operation.
  MakingCore(boost::asio::any_io_executor const& executor, Result<Source> source)
      : Turning{executor}, source_{std::move(source)} {
    spin_for_ = {};  // a peer takes longer
  }

  using Turning::start;
  /// The source ends.
  void close() noexcept {
    After after;
    {
      std::lock_guard const lock{mutex_};
      take_all(boost::asio::error::operation_aborted, after);
      stop_sleeping();
      descriptor_.reset();
      end_source();
    }
    finish(after, shared_from_this());
  }

  /// As of the listener.
  [[nodiscard]] std::string last_rejected() const requires Listens<Source> {
    std::lock_guard const lock{mutex_};
    return source_ ? source_.value().last_rejected() : std::string{};
  }

  /// `As` makes the handler's values: as(code, made, why), where `made` is empty at an error, and
  /// `why` is the error.
  template <class As>
  class Next {
   public:
    Next(std::shared_ptr<MakingCore> core, As as, Result<void> allowed = success()) noexcept
        : core_{std::move(core)}, as_{std::move(as)}, allowed_{std::move(allowed)} {}
    [[nodiscard]] bool begin() noexcept { return allowed_ ? attempt() : fail(allowed_.error()); }
    [[nodiscard]] bool attempt() noexcept {
      if (!core_->source_) return fail(core_->source_.error());
      auto next = next_of(core_->source_.value());
      if (!next) return fail(next.error());
      made_ = std::move(next).value();
      return made_.has_value();
    }
    void end(boost::system::error_code why) noexcept {
      code_ = why;
      why_ = Error{Errc::cancelled};
      if constexpr (!Listens<Source>) core_->end_source();  // it gives up
    }
    /// Once: what was made is moved out.
    [[nodiscard]] auto values() noexcept { return as_(code_, std::move(made_), std::move(why_)); }
    [[nodiscard]] OperationRoom* room() const noexcept { return nullptr; }

   private:
    [[nodiscard]] bool fail(Error const& error) noexcept {
      code_ = core_->failed(error);
      why_ = error;
      return true;
    }
    // Where a context goes, its reactor drops all else that owns the core of a connect.
    std::shared_ptr<MakingCore> core_;
    As as_;
    Result<void> allowed_;
    boost::system::error_code code_{};
    Made made_{};
    std::optional<Error> why_{};
  };

 private:
  // ---- with the mutex ----
  [[nodiscard]] bool advance(After& after) noexcept override {
    attempt_all(after);
    return false;
  }
  [[nodiscard]] std::optional<Rest> arm() noexcept override { return Rest{true}; }
  [[nodiscard]] Result<int> own_descriptor() const noexcept override {
    if (!source_) return source_.error();
    return source_.value().descriptor();
  }
  void end_source() noexcept { source_ = Error{Errc::cancelled}; }

  Result<Source> source_;
};

/// Awaits what `Core` makes next, for a handler of these values.
template <class Core, class As, class Executor>
class MakingInitiation {
 public:
  using executor_type = Executor;
  MakingInitiation(std::shared_ptr<Core> core, As as, Executor const& executor,
                   Result<void> allowed = success())
      : core_{std::move(core)},
        as_{std::move(as)},
        executor_{executor},
        allowed_{std::move(allowed)} {}
  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  template <class Handler>
  void operator()(Handler&& handler) const {
    auto const core = core_;  // the handler may destroy this on another thread
    std::decay_t<Handler> own{std::forward<Handler>(handler)};
    core->start(typename Core::template Next<As>{core, as_, allowed_}, std::move(own), executor_);
  }

 private:
  std::shared_ptr<Core> core_;
  As as_;
  Executor executor_;
  Result<void> allowed_;
};

}  // namespace lend::asio::implementation
