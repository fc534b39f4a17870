// SPDX-License-Identifier: MIT OR Apache-2.0
// channel_builder() → PreparedChannel → handshake() → Channel, and the other services. One thread
// at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/builder_steps.hpp>
#include <lend/channel/channel_options.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lend {

/// Prepares a channel with options in a struct; ChannelBuilder::build() calls it.
///
/// Shape:   as QueuePairOptions. The completion queue is sized from the depths.
/// Errors:  those of CompletionQueue::create() and PreparedQueuePair::create(), and
///          invalid_argument  the depths together exceed what one completion queue holds,
///                            keep_alive is not 0 and below 1 ms, `domain` is not of the wait
///                            set's Context, or the receive pool is of another set or domain.
[[nodiscard]] LEND_EXPORT Result<PreparedChannel> prepare_channel(ProtectionDomain const& domain,
                                                                  ChannelOptions const& options);

/// Call each step at most once, the protection domain always, and no step that the service lacks;
/// otherwise the program does not compile.
template <std::uint32_t Steps = 0, IsService S = Rc>
class ChannelBuilder {
  using QueueOptions = OptionsOf<S>;

 public:
  ChannelBuilder() = default;

  [[nodiscard]] auto protection_domain(ProtectionDomain const& domain) const requires
      StepNotTakenYet<Steps, BuilderStep::protection_domain> {
    auto next = step<BuilderStep::protection_domain>();
    next.domain_ = domain;
    return next;
  }
  /// Maximum number of sends, writes and reads outstanding.
  [[nodiscard]] auto send_depth(std::uint32_t requests) const requires
      StepNotTakenYet<Steps, BuilderStep::send_depth> {
    return set<BuilderStep::send_depth>(&QueueOptions::send_depth, requests);
  }
  /// Maximum number of receives outstanding.
  [[nodiscard]] auto receive_depth(std::uint32_t requests) const requires
      StepNotTakenYet<Steps, BuilderStep::receive_depth> &&
      StepNotTakenYet<Steps, BuilderStep::receive_pool> {
    return set<BuilderStep::receive_depth>(&QueueOptions::receive_depth, requests);
  }
  /// Maximum number of elements of one gather or scatter list. A channel has 80 bytes for each
  /// element of each of its slots, which are twice its depths: some 160 KiB with the defaults.
  [[nodiscard]] auto elements(std::uint32_t count) const requires
      StepNotTakenYet<Steps, BuilderStep::elements> {
    return set<BuilderStep::elements>(&QueueOptions::elements, count);
  }
  /// The same of a receive; without it as elements().
  [[nodiscard]] auto receive_elements(std::uint32_t count) const requires
      StepNotTakenYet<Steps, BuilderStep::receive_elements> &&
      StepNotTakenYet<Steps, BuilderStep::receive_pool> {
    return set<BuilderStep::receive_elements>(&QueueOptions::receive_elements, count);
  }
  /// Sends and writes of up to so many bytes are copied when posted: as QueuePairOptions.
  [[nodiscard]] auto inline_bytes(std::uint32_t bytes) const requires
      StepNotTakenYet<Steps, BuilderStep::inline_bytes> {
    return set<BuilderStep::inline_bytes>(&QueueOptions::inline_bytes, bytes);
  }
  /// How often a message is retried if the peer has no receive posted; nothing: without limit.
  [[nodiscard]] auto receiver_not_ready_retries(std::optional<std::uint8_t> count) const requires
      StepNotTakenYet<Steps, BuilderStep::receiver_not_ready_retries> && Acknowledges<S> {
    return set<BuilderStep::receiver_not_ready_retries>(&QueueOptions::receiver_not_ready_retries,
                                                        count);
  }
  /// How long a sender waits if no receive is posted: 0 to 655.36 ms, rounded up to the device's
  /// table of 32 values; 0 becomes 0.01 ms.
  [[nodiscard]] auto receiver_not_ready_delay(std::chrono::nanoseconds delay) const requires
      StepNotTakenYet<Steps, BuilderStep::receiver_not_ready_delay> && Acknowledges<S> {
    return set<BuilderStep::receiver_not_ready_delay>(&QueueOptions::receiver_not_ready_delay,
                                                      delay);
  }
  /// This end's address, not the best one: an entry of Context::gids(), one with this IPv4 or IPv6
  /// address, or the best in this network: "10.1.0.0/16".
  [[nodiscard]] auto gid_index(std::uint32_t index) const requires
      StepNotTakenYet<Steps, BuilderStep::gid> {
    return set<BuilderStep::gid>(&ConnectionOptions::gid, GidChoice{.index = index});
  }
  [[nodiscard]] auto gid_address(std::string address) const requires
      StepNotTakenYet<Steps, BuilderStep::gid> {
    return set<BuilderStep::gid>(&ConnectionOptions::gid, GidChoice{.address = std::move(address)});
  }
  [[nodiscard]] auto gid_network(std::string network) const requires
      StepNotTakenYet<Steps, BuilderStep::gid> {
    return set<BuilderStep::gid>(&ConnectionOptions::gid, GidChoice{.network = std::move(network)});
  }
  // ---- the connection: as ConnectionOptions and QueuePairOptions say of each ----
  [[nodiscard]] auto ack_timeout(std::chrono::nanoseconds timeout) const requires
      StepNotTakenYet<Steps, BuilderStep::ack_timeout> && Acknowledges<S> {
    return set<BuilderStep::ack_timeout>(&ConnectionOptions::ack_timeout, timeout);
  }
  [[nodiscard]] auto ack_retries(std::uint8_t count) const requires
      StepNotTakenYet<Steps, BuilderStep::ack_retries> && Acknowledges<S> {
    return set<BuilderStep::ack_retries>(&ConnectionOptions::ack_retries, count);
  }
  [[nodiscard]] auto mtu(std::uint32_t bytes) const requires
      StepNotTakenYet<Steps, BuilderStep::mtu> && IsConnected<S> {
    return set<BuilderStep::mtu>(&ConnectionOptions::mtu_bytes, bytes);
  }
  [[nodiscard]] auto reads(std::uint8_t in_flight, std::uint8_t served) const requires
      StepNotTakenYet<Steps, BuilderStep::reads> && CanRead<S> {
    auto next = set<BuilderStep::reads>(&QueueOptions::reads_in_flight, in_flight);
    next.options_.queue_pair.reads_served = served;
    return next;
  }
  [[nodiscard]] auto remote_access(RemoteAccess access) const requires
      StepNotTakenYet<Steps, BuilderStep::remote_access> && CanRead<S> {
    return set<BuilderStep::remote_access>(&QueueOptions::remote_access, access);
  }
  /// Of an unreliable connection, where a peer can do nothing else with this end's memory.
  [[nodiscard]] auto remote_writes(bool are_allowed) const requires
      StepNotTakenYet<Steps, BuilderStep::remote_access> && CanWrite<S> &&(!CanRead<S>) {
    return set<BuilderStep::remote_access>(&QueueOptions::remote_writes, are_allowed);
  }
  [[nodiscard]] auto service_level(std::uint8_t level) const requires
      StepNotTakenYet<Steps, BuilderStep::service_level> {
    return set<BuilderStep::service_level>(&ConnectionOptions::service_level, level);
  }
  [[nodiscard]] auto traffic_class(std::uint8_t value) const requires
      StepNotTakenYet<Steps, BuilderStep::traffic_class> {
    return set<BuilderStep::traffic_class>(&ConnectionOptions::traffic_class, value);
  }
  [[nodiscard]] auto partition_key(std::uint16_t key) const requires
      StepNotTakenYet<Steps, BuilderStep::partition_key> {
    return set<BuilderStep::partition_key>(&ConnectionOptions::partition_key, key);
  }

  [[nodiscard]] auto queue_key(std::uint32_t key) const requires
      StepNotTakenYet<Steps, BuilderStep::queue_key> && IsAddressed<S> {
    return set<BuilderStep::queue_key>(&QueueOptions::queue_key, key);
  }

  [[nodiscard]] auto wait(Wait how) const requires StepNotTakenYet<Steps, BuilderStep::wait> &&
      StepNotTakenYet<Steps, BuilderStep::wait_set> {
    return set<BuilderStep::wait>(&ChannelOptionsOf<S>::wait, how);
  }
  /// The channel joins `set`, which names it by `tag` and says how it waits. The set must exist
  /// until build().
  [[nodiscard]] auto wait_set(WaitSet& set, std::uint64_t tag) const requires
      StepNotTakenYet<Steps, BuilderStep::wait> && StepNotTakenYet<Steps, BuilderStep::wait_set> {
    auto next = step<BuilderStep::wait_set>();
    next.options_.wait_set = &set;
    next.options_.tag = tag;
    return next;
  }

  /// The peer's messages take the pieces of `pool`, which is of the channel's set: they come from
  /// ReceivePool::next(), and the channel takes no receives of its own. The pool must exist until
  /// build(); a channel whose pool ends is broken. Without keep_alive() a channel of a pool that
  /// sends nothing does not notice that its peer died.
  [[nodiscard]] auto receive_pool(ReceivePool& pool) const requires WaitSetIsSet<Steps> &&
      StepNotTakenYet<Steps, BuilderStep::receive_depth> &&
      StepNotTakenYet<Steps, BuilderStep::receive_pool> && Acknowledges<S> {
    return set<BuilderStep::receive_pool>(&ChannelOptionsOf<S>::receive_pool, &pool);
  }

  /// Detects a dead peer while only receives are outstanding: they end with peer_lost. Without it
  /// only a deadline ends them.
  ///
  /// A wait or poll without a result posts a zero-byte RDMA write every `interval` (1 ms or more)
  /// while only receives are outstanding. It detects the loss within interval + 10 ms (or the next
  /// poll, if later) + (ack_retries + 1) · ack_timeout; cards may take four times the latter. The
  /// peer's device answers, not its program: a stopped or busy process is not reported. A peer that
  /// has not finished its handshake within that time is. An outstanding send, write or read needs
  /// no keep-alive: it fails with retry_exceeded, and the receives are flushed with that as their
  /// cause. On iWARP nothing is posted: rdma_cm reports the loss. Costs one entry each of the send
  /// queue and the completion queue, and no loans.
  ///
  /// The peer's queue pair must permit remote writes, as those of lend do unless remote_access()
  /// says otherwise. One that does not refuses the first keep-alive (remote_invalid_request), which
  /// breaks the channel.
  /// Source:  Linux drivers/infiniband/sw/rxe/rxe_resp.c, check_qp_attr_access().
  [[nodiscard]] auto keep_alive(std::chrono::nanoseconds interval) const requires
      StepNotTakenYet<Steps, BuilderStep::keep_alive> && Acknowledges<S> {
    return set<BuilderStep::keep_alive>(&ChannelOptionsOf<S>::keep_alive, interval);
  }

  /// `.observe({.metrics = true})`
  [[nodiscard]] auto observe(ObserveOptions options) const requires
      StepNotTakenYet<Steps, BuilderStep::observe> {
    return set<BuilderStep::observe>(&ChannelOptionsOf<S>::observe, std::move(options));
  }
  /// The PreparedChannel, PreparedUnreliableChannel or DatagramChannel.
  /// Errors:  those of prepare_channel(), prepare_unreliable_channel() or open_channel().
  [[nodiscard]] auto build() const requires ProtectionDomainIsSet<Steps> {
    // Found where they are called: their headers include this one.
    if constexpr (Acknowledges<S>)
      return prepare_channel(*domain_, options_);
    else if constexpr (IsConnected<S>)
      return prepare_unreliable_channel(*domain_, options_);
    else
      return open_channel(*domain_, options_);
  }

 private:
  template <std::uint32_t, IsService>
  friend class ChannelBuilder;

  template <BuilderStep Step>
  [[nodiscard]] auto step() const {
    ChannelBuilder<Steps | std::uint32_t(Step), S> next;
    next.domain_ = domain_;
    next.options_ = options_;
    return next;
  }
  template <BuilderStep Step, class T, class Options, class Value>
  [[nodiscard]] auto set(T Options::*option, Value value) const {
    auto next = step<Step>();
    if constexpr (std::same_as<Options, ConnectionOptions>)
      next.options_.queue_pair.connection.*option = std::move(value);
    else if constexpr (std::same_as<Options, QueueOptions>)
      next.options_.queue_pair.*option = std::move(value);
    else
      next.options_.*option = std::move(value);
    return next;
  }

  std::optional<ProtectionDomain> domain_{};
  ChannelOptionsOf<S> options_{};
};

/// Starts a builder.
[[nodiscard]] inline ChannelBuilder<> channel_builder() {
  return {};
}
/// The same, with its protection domain.
[[nodiscard]] inline auto channel_builder(ProtectionDomain const& domain) {
  return channel_builder().protection_domain(domain);
}

}  // namespace lend
