// SPDX-License-Identifier: MIT OR Apache-2.0
// What has been counted, added up. Values.
#pragma once

#include <lend/base/export.hpp>
#include <lend/observe/channel_metrics.hpp>
#include <lend/observe/metrics.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lend::observe {

/// Bounds of the buckets that metrics have of latencies: 1 us to 1 s by 4.
inline constexpr std::size_t latency_bounds = 11;
[[nodiscard]] constexpr std::chrono::nanoseconds latency_bound(std::size_t index) noexcept {
  return std::chrono::nanoseconds{std::int64_t{1000} << 2 * index};
}

/// Channels that are working or broken, and that broke at some time.
struct ChannelCounts {
  std::uint64_t working = 0, broken = 0, breaks = 0;
};

/// What all channels of one name have counted.
struct Totals {
  struct OfOperation {
    std::uint64_t posted = 0, completed = 0, failed = 0, flushed = 0, bytes = 0;
    std::array<std::uint64_t, latency_bounds + 1> latencies{};  // the last: above all bounds
    double seconds = 0;                                         // of all latencies

    OfOperation& operator+=(OfOperation const& other) noexcept;
  };
  std::array<OfOperation, 5> operations{};  // by Operation
  PeerLoanMetrics peer_loans{};
  std::uint64_t room_waits = 0;
  ChannelCounts channels{};

  Totals& operator+=(Totals const& other) noexcept;
  /// The same of what is being counted, in any thread.
  void add_counted(std::array<OperationMetrics, 5> const& operations,
                   PeerLoanMetrics const& peer_loans, std::uint64_t const& room_waits,
                   ChannelCounts const& channels) noexcept;
};

/// Of channels of one name.
struct Series {
  std::string name;
  Totals totals{};
};

/// Calls of groups, by the number of their Collective.
inline constexpr std::array<std::string_view, 15> call_names{
    "barrier",    "broadcast", "gather",    "scatter",        "allgather",
    "all_to_all", "reduce",    "allreduce", "reduce_scatter", "scan",
    "exscan",     "gatherv",   "scatterv",  "allgatherv",     "all_to_allv"};

/// How a listener's client ended: connected; refused by the program or its device; of another lend,
/// user or secret, or one that does not fit; too slow.
enum class ClientEnd : std::uint8_t { connected, failed, rejected, too_slow };
inline constexpr std::array<std::string_view, 4> client_ends{"connected", "failed", "rejected",
                                                             "too_slow"};

/// What a pool has many of: a ReceivePool pieces; a MessagePool transports, receives that it may
/// grant them, drafts.
enum class PoolPart : std::uint8_t { pieces, transports, receives, drafts };
inline constexpr std::array<std::string_view, 4> pool_parts{"pieces", "transports", "receives",
                                                            "drafts"};

/// Of any number of transports, groups, listeners and pools.
struct Tallies {
  struct OfCall {
    std::uint64_t succeeded = 0, failed = 0;
    std::uint64_t nanoseconds = 0;  ///< of those that succeeded
  };
  struct OfPart {
    std::uint64_t used = 0, free = 0;  ///< now
    /// Times that none was free: the last piece got a message; a transport was refused; one that
    /// might send no more was granted nothing; one had no draft to send from.
    std::uint64_t lacking = 0;
  };
  std::uint64_t sent = 0, received = 0, sent_bytes = 0, received_bytes = 0;  // messages
  std::array<OfCall, call_names.size()> calls{};
  std::array<std::uint64_t, client_ends.size()> clients{};
  std::array<OfPart, pool_parts.size()> pools{};  // by PoolPart
  std::uint64_t pooled = 0;                       // messages that came to ReceivePools

  /// None is used or free: they have ended. In the thread that counts.
  void end_pools() noexcept;
  Tallies& operator+=(Tallies const& other) noexcept;  ///< `other` may be counting
};

/// Names beyond these count as "other".
inline constexpr std::size_t names_max = 64;

/// What one process has counted, or several.
struct Counts {
  std::vector<Series> series{};
  Tallies tallies{};

  /// The place of that name, or of "other". Throws std::bad_alloc.
  [[nodiscard]] std::size_t series_of(std::string_view name);
  /// Throws std::bad_alloc.
  LEND_EXPORT Counts& operator+=(Counts const& other);
};

/// As metrics_text(). Throws std::bad_alloc.
[[nodiscard]] LEND_EXPORT std::string text_of(Counts const& counts, MetricsFormat format);

}  // namespace lend::observe
