// SPDX-License-Identifier: MIT OR Apache-2.0
// A program of one thread and one epoll that makes connections. One thread.
#pragma once

#include <sys/epoll.h>
#include <unistd.h>
#include <lend/cm/connecting.hpp>
#include <lend/cm/listener.hpp>

#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

/// One connection: under way, made or failed.
struct Making {
  std::optional<CmConnecting> connecting{};
  std::optional<CmConnection> connection{};
  std::optional<Error> error{};

  [[nodiscard]] bool is_over() const { return !connecting.has_value(); }
  /// Whether it is connected; otherwise the test shows why not.
  [[nodiscard]] bool is_connected() const {
    if (error) UNSCOPED_INFO(error->message());
    return connection.has_value();
  }
};

class EventLoop {
 public:
  EventLoop() : epoll_{::epoll_create1(EPOLL_CLOEXEC)} { REQUIRE(epoll_ >= 0); }
  EventLoop(EventLoop const&) = delete;
  EventLoop& operator=(EventLoop const&) = delete;
  ~EventLoop() { ::close(epoll_); }

  /// Answers what comes to `listener`, which outlives the loop, by `accept`.
  void serve(CmListener& listener, std::function<Result<CmConnecting>(CmRequest)> accept) {
    listener_ = &listener;
    accept_ = std::move(accept);
    watch(listener.descriptor(), nullptr);
  }
  /// Adds what has begun, or failed to; it stays where it is.
  Making& add(Result<CmConnecting> begun) {
    Making& one = makings.emplace_back();
    if (begun.has_value())
      watch(one.connecting.emplace(std::move(begun).value()).descriptor(), &one);
    else
      one.error = begun.error();
    return one;
  }

  /// Handles what is ready. Whether anything was, within the time.
  bool turn(int milliseconds) {
    std::array<epoll_event, 16> events;
    int const count = ::epoll_wait(epoll_, events.data(), int(events.size()), milliseconds);
    REQUIRE(count >= 0);
    for (int i = 0; i < count; ++i) {
      auto* const one = static_cast<Making*>(events[std::size_t(i)].data.ptr);
      if (one == nullptr)
        take_request();
      else if (!one->is_over())
        advance(*one);
    }
    return count > 0;
  }
  void advance(Making& one) {
    auto advanced = one.connecting->advance();
    if (!advanced.has_value())
      one.error = advanced.error();
    else if (advanced.value())
      one.connection = std::move(*advanced.value());
    else
      return;
    one.connecting.reset();
  }
  [[nodiscard]] std::size_t under_way() const {
    std::size_t count = 0;
    for (auto const& one : makings) count += one.is_over() ? 0U : 1U;
    return count;
  }

  std::deque<Making> makings{};      // both sides', in the order in which they began
  std::optional<Error> listening{};  // the listener's error

 private:
  void take_request() {
    auto request = listener_->poll();
    if (!request.has_value())
      listening = request.error();
    else if (request.value())
      add(accept_(std::move(*request.value())));
  }
  void watch(int descriptor, Making* what) const {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = what}};
    REQUIRE(::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0);
  }

  int epoll_;
  CmListener* listener_ = nullptr;
  std::function<Result<CmConnecting>(CmRequest)> accept_{};
};

}  // namespace lend::test
