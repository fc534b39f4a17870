// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of channels, by their service. Values; any thread.
#pragma once

#include <lend/verbs/queue_pair_options.hpp>
#include <lend/verbs/service.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

namespace lend {

class ReceivePool;
class WaitSet;

/// How a channel waits. Every wait polls; the values differ in what the thread does between polls.
enum class Wait : std::uint8_t {
  spin,      ///< polls on: lowest latency, one CPU per waiting thread
  adaptive,  ///< spins briefly, yields for 10 ms, then sleeps as `event` does, or 50 µs at a time
             ///< if descriptors are short; spins longer beside an unrelated program, less if others
             ///< that wait share its CPU
  event,     ///< sleeps until the device wakes it, but polls 10 times a second (50 if it can be
             ///< cancelled or rdma_cm watches): some µs more latency, two descriptors
};

/// What a channel keeps of its work, for programs and people to see.
struct ObserveOptions {
  /// Counts operations, bytes and latencies: Channel::metrics() has them. Costs 35 to 44
  /// instructions an operation, and 41 KiB.
  bool metrics = false;
  /// A directory, where the channel keeps its last 1,023 events in a file of its own, which
  /// survives the process; `lend trace` reads it. Includes metrics. A missing directory is made. If
  /// it cannot be used, the channel works without a recording, and
  /// ChannelMetrics::recording_failure says why. Empty: that of the environment variable
  /// LEND_RECORD; without it nothing is recorded.
  std::string record_in{};
  /// By what metrics_text() tells this channel's counts from others': a word for what the channel
  /// is for, as "halo", and not for its peer. A process has 64 names, of 60 characters of ASCII;
  /// channels of further names count as "other".
  std::string name{};
};

/// Options of a channel. `queue_pair.probes` is ignored: keep_alive decides it.
/// Borrows: `wait_set` and `receive_pool`, until the channel is prepared.
struct ChannelOptions {
  QueuePairOptions queue_pair{};
  Wait wait = Wait::adaptive;
  /// 0: off; see ChannelBuilder::keep_alive(). None: LEND_KEEP_ALIVE; off, but 1 s in a
  /// PreparedMultiChannel.
  std::optional<std::chrono::nanoseconds> keep_alive{};
  WaitSet* wait_set = nullptr;          ///< which the channel joins; `wait` is then the set's
  std::uint64_t tag = 0;                ///< what the set calls the channel
  ReceivePool* receive_pool = nullptr;  ///< of that set; `receive_depth` is then not used
  ObserveOptions observe{};
  std::string peer_name{};  ///< what errors call the peer: "rank 12"
};

/// Options of an UnreliableChannel, each as in ChannelOptions.
struct UnreliableChannelOptions {
  UnreliableOptions queue_pair{};
  Wait wait = Wait::adaptive;
  WaitSet* wait_set = nullptr;
  std::uint64_t tag = 0;
  ObserveOptions observe{};
};

/// Options of a DatagramChannel, each as in ChannelOptions.
struct DatagramChannelOptions {
  DatagramOptions queue_pair{};
  Wait wait = Wait::adaptive;
  WaitSet* wait_set = nullptr;
  std::uint64_t tag = 0;
  ObserveOptions observe{};
};

template <IsService S>
using ChannelOptionsOf = std::conditional_t<
    std::same_as<S, Rc>, ChannelOptions,
    std::conditional_t<std::same_as<S, Uc>, UnreliableChannelOptions, DatagramChannelOptions>>;

}  // namespace lend
