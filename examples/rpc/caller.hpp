// SPDX-License-Identifier: MIT OR Apache-2.0
// The side that asks: any number of calls under way, each with its own deadline. One thread.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/any.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

class Caller {
 public:
  /// Gets the answer, or timed_out.
  using Done = std::function<void(lend::Result<std::uint32_t>)>;

  /// `transport` outlives this, which alone receives from it.
  explicit Caller(lend::AnyTransport& transport) : transport_{transport} {}

  struct Request {
    std::size_t bytes = 0;
    std::byte content{};
    std::chrono::microseconds work{};
    std::chrono::microseconds patience{};
  };
  /// Sends it, and returns. False: no room now; wait(), then ask again.
  [[nodiscard]] lend::Result<bool> start(Request const& request, Done done);
  /// Until a call has ended, or there may be room again.
  [[nodiscard]] lend::Result<void> wait();
  [[nodiscard]] std::size_t calls_under_way() const noexcept { return calls_.size(); }

 private:
  struct Call {
    lend::Deadline deadline;
    Done done;
  };
  [[nodiscard]] lend::Result<bool> receive();
  [[nodiscard]] bool expire();
  [[nodiscard]] lend::Deadline soonest() const noexcept;

  lend::AnyTransport& transport_;
  std::unordered_map<std::uint32_t, Call> calls_{};
  std::uint32_t last_id_ = 0;
};
