// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of channels, by their service. Values; any thread.
#pragma once

#include <lend/verbs/queue_pair_options.hpp>
#include <lend/verbs/service.hpp>

#include <chrono>
#include <cstdint>
#include <type_traits>

namespace lend {

class ReceivePool;
class WaitSet;

/// How a channel waits. Every wait polls; the values differ in what the thread does between polls.
enum class Wait : std::uint8_t {
  spin,      ///< polls on: lowest latency, one CPU per waiting thread
  adaptive,  ///< spins briefly if no other thread wants the CPU, yields for 10 ms, then sleeps as
             ///< `event` does, or 50 µs at a time if descriptors are short
  event,     ///< sleeps until the device wakes it, but polls 10 times a second (50 if it can be
             ///< cancelled or rdma_cm watches): some µs more latency, two descriptors
};

/// Options of a channel. `queue_pair.probes` is ignored: keep_alive decides it.
/// Borrows: `wait_set` and `receive_pool`, until the channel is prepared.
struct ChannelOptions {
  QueuePairOptions queue_pair{};
  Wait wait = Wait::adaptive;
  std::chrono::nanoseconds keep_alive{0};  ///< 0: off; see ChannelBuilder::keep_alive()
  WaitSet* wait_set = nullptr;             ///< which the channel joins; `wait` is then the set's
  std::uint64_t tag = 0;                   ///< what the set calls the channel
  ReceivePool* receive_pool = nullptr;     ///< of that set; `receive_depth` is then not used
};

/// Options of an UnreliableChannel, each as in ChannelOptions.
struct UnreliableChannelOptions {
  UnreliableOptions queue_pair{};
  Wait wait = Wait::adaptive;
  WaitSet* wait_set = nullptr;
  std::uint64_t tag = 0;
};

/// Options of a DatagramChannel, each as in ChannelOptions.
struct DatagramChannelOptions {
  DatagramOptions queue_pair{};
  Wait wait = Wait::adaptive;
  WaitSet* wait_set = nullptr;
  std::uint64_t tag = 0;
};

template <IsService S>
using ChannelOptionsOf = std::conditional_t<
    std::same_as<S, Rc>, ChannelOptions,
    std::conditional_t<std::same_as<S, Uc>, UnreliableChannelOptions, DatagramChannelOptions>>;

}  // namespace lend
