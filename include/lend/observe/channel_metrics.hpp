// SPDX-License-Identifier: MIT OR Apache-2.0
// What a channel counts of its work. Plain values; the thread of the channel.
#pragma once

#include <lend/base/error.hpp>
#include <lend/base/work_failure.hpp>
#include <lend/observe/latency_histogram.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lend {

/// The work requests of one kind. Once none is outstanding, posted = completed + failed + flushed.
struct OperationMetrics {
  std::uint64_t posted = 0;     ///< the device took it, or may have
  std::uint64_t completed = 0;  ///< with success
  std::uint64_t failed = 0;     ///< otherwise, but for the flushed ones
  std::uint64_t flushed = 0;    ///< ended by an earlier failure, by an abort or by a recall
  std::uint64_t bytes = 0;      ///< of completed ones; of receives what came
  /// Of completed ones: from the end of the post until the completion was seen by a poll.
  LatencyHistogram latency{};
};

/// Bytes lent to the peer by PollingScope::post_lend(). Once none is lent, lent = returned +
/// recalled + ended.
struct PeerLoanMetrics {
  std::uint64_t lent = 0;      ///< loans that began
  std::uint64_t returned = 0;  ///< by the peer
  std::uint64_t recalled = 0;  ///< by PeerLoan::recall(), or at the end of a scope
  std::uint64_t ended = 0;     ///< with the connection
  std::uint64_t refused = 0;   ///< calls that lent nothing
};

/// What one channel has counted since it was prepared.
///
/// Not counted: requests that the device refused, keep-alives. A message that came to a
/// ReceivePool counts as a posted and completed receive of the channel, without latency.
struct ChannelMetrics {
  std::array<OperationMetrics, 5> operations{};  ///< by Operation; of() has the others, too
  std::uint32_t sends_outstanding_max = 0;       ///< in the send queue, of any operation
  std::uint32_t receives_outstanding_max = 0;    ///< in the receive queue
  std::uint64_t room_waits = 0;                  ///< posts that found no room and waited for it
  PeerLoanMetrics peer_loans{};

  // Of all channels of its WaitSet, if it has one.
  std::uint64_t yields = 0;  ///< a wait let other threads run
  std::uint64_t naps = 0;    ///< a wait slept 50 µs, because nothing could wake it
  std::uint64_t sleeps = 0;  ///< a wait slept until a wake-up, a deadline, or its time to poll

  /// Why the channel records nothing, or no more, although it was asked to.
  std::optional<Error> recording_failure{};

  /// Of Operation::lend and Operation::recall nothing but zeros: peer_loans counts them.
  [[nodiscard]] OperationMetrics const& of(Operation operation) const noexcept {
    static constexpr OperationMetrics uncounted{};
    auto const at = static_cast<std::size_t>(operation);
    return at < operations.size() ? operations[at] : uncounted;
  }
  static_assert(static_cast<std::size_t>(Operation::lend) == 5 &&
                static_cast<std::size_t>(Operation::recall) == 6);
};

}  // namespace lend
