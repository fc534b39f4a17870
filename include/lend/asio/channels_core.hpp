// SPDX-License-Identifier: MIT OR Apache-2.0
// A Listener or a Connecting in an execution context: channels that are awaited of it, by turns.
// For `channels.hpp`. The executor of the channels, but for what Turning says: a channel of a
// WaitSet is connected where that is used.
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/asio/turning.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/network/connect.hpp>
#include <lend/network/connecting.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/system/error_code.hpp>

#include <concepts>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

namespace lend::asio::implementation {

[[nodiscard]] inline auto next_of(Listener& listener) {
  return listener.poll();
}
[[nodiscard]] inline auto next_of(Connecting& connecting) {
  return connecting.advance();
}

/// `Source` has a `Made` now and then.
template <class Source, class Made>
class ChannelsCore final : public Turning {
 public:
  /// An error is that of every operation.
  ChannelsCore(boost::asio::any_io_executor const& executor, Result<Source> source)
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

  class Next {
   public:
    explicit Next(std::shared_ptr<ChannelsCore> core) noexcept : core_{std::move(core)} {}
    [[nodiscard]] bool begin() noexcept { return attempt(); }
    [[nodiscard]] bool attempt() noexcept {
      if (!core_->source_) return fail(core_->source_.error());
      auto next = next_of(core_->source_.value());
      if (!next) return fail(next.error());
      made_ = std::move(next).value();
      return made_.has_value();
    }
    void end(boost::system::error_code why) noexcept {
      code_ = why;
      if constexpr (std::same_as<Source, Connecting>) core_->end_source();  // it gives up
    }
    /// Once: what was made is moved out.
    [[nodiscard]] auto values() noexcept { return std::tuple{code_, std::move(made_)}; }
    [[nodiscard]] OperationRoom* room() const noexcept { return nullptr; }

   private:
    [[nodiscard]] bool fail(Error error) noexcept {
      code_ = core_->failed(std::move(error));
      return true;
    }
    // Where a context goes, its reactor drops all else that owns the core of a connect.
    std::shared_ptr<ChannelsCore> core_;
    boost::system::error_code code_{};
    std::optional<Made> made_{};
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

}  // namespace lend::asio::implementation
