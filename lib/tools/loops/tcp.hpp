// SPDX-License-Identifier: MIT OR Apache-2.0
// What TCP takes over the loopback device, to compare with: half of a round trip, each of which is
// timed, between two processes that sleep while they wait. One thread.
#pragma once

#include <lend/base/result.hpp>

#include <base/unique_fd.hpp>
#include <tools/loops/rounds.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace lend::tools {

/// Larger messages measure how memory is copied.
inline constexpr std::size_t tcp_bytes_max = std::size_t{1} << 20;

/// Made before a process forks: one of the two answers, the other one measures.
class TcpLoopback {
 public:
  /// Errors:  those of sockets.
  [[nodiscard]] static Result<TcpLoopback> open();

  /// Sends back what comes, until the other process closes its end.
  /// Errors:  those of sockets; timed_out  no process came, or no byte, for 10 s.
  [[nodiscard]] Result<void> answer();
  /// `rounds` of messages of `bytes`.
  /// Errors:  those of sockets; peer_lost, timed_out  no answer came, or none for 10 s.
  [[nodiscard]] Result<Durations> measure(std::size_t bytes, std::uint64_t rounds);
  /// Ends the process that answers.
  void close() noexcept { connected_ = {}; }

 private:
  explicit TcpLoopback(base::UniqueFd listening) : listening_{std::move(listening)} {}

  base::UniqueFd listening_, connected_{};
};

}  // namespace lend::tools
