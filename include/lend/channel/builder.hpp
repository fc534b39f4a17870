// SPDX-License-Identifier: MIT OR Apache-2.0
// channel_builder() → PreparedChannel → handshake → Channel. One thread at a time.
#pragma once

#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lend {

/// How a channel waits. Every wait polls; they differ in what they do between polls.
enum class Wait : std::uint8_t {
  spin,      ///< nothing: lowest latency, takes a CPU each
  adaptive,  ///< spin shortly if there is more than one CPU, yield for 10 ms, then sleep as `event`
             ///< does, or 50 µs at a time where descriptors are short
  event,  ///< sleep until the device wakes: no CPU at all, some µs more latency, two descriptors
};

/// What a channel is made with; see QueuePairOptions for the rest. `queue_pair.probes` is not read:
/// keep_alive decides it.
struct ChannelOptions {
  QueuePairOptions queue_pair{};
  Wait wait = Wait::adaptive;
  std::chrono::nanoseconds keep_alive{0};  ///< 0: off; see ChannelBuilder::keep_alive()
};

/// A channel that is not connected yet.
class PreparedChannel {
 public:
  PreparedChannel(PreparedChannel&&) noexcept;
  PreparedChannel& operator=(PreparedChannel&&) noexcept;
  ~PreparedChannel();

  /// Whether it was moved from or consumed: nothing but its destruction is left.
  [[nodiscard]] bool is_used_up() const noexcept { return parts_ == nullptr; }

  /// What the peer must know.
  [[nodiscard]] Endpoint const& endpoint() const noexcept;

  /// Connects to `peer`, whose side must do the same with this end's endpoint(). For a loop-back
  /// give it its own endpoint. Consumes this object, also when it fails.
  ///
  /// It exchanges nothing with the peer and takes no deadline. What it may wait for is the kernel,
  /// which on RoCE looks for the peer's hardware address and gives up after 1 s.
  ///
  /// Errors:  those of PreparedQueuePair::connect(), and
  ///          exhausted          no memory or descriptors for the channel.
  ///          stale_handle       it was moved from or consumed before.
  ///          incompatible_peer  after prepare_again(), when `peer` is an endpoint of the channel
  ///                             before: this object then stays as it was, for the right one.
  /// Source:  Linux drivers/infiniband/core/addr.c, rdma_addr_find_l2_eth_by_grh().
  [[nodiscard]] Result<Channel> handshake(Endpoint const& peer) &&;

  /// Hands out the queue pair to be connected by other means than endpoints; give what that yields
  /// to adopt(). Asked again, it is one that was moved from.
  [[nodiscard]] PreparedQueuePair take_queue_pair() noexcept;
  /// The channel over the queue pair that take_queue_pair() handed out. Consumes this object, also
  /// when it fails.
  ///
  /// The caller owes: nothing was posted on `connected` by its unsafe_post_*(), whose
  /// completions would break the channel's accounts.
  /// Errors:  invalid_argument  `connected` is another queue pair, or was moved from.
  ///          exhausted         no memory for the channel.
  ///          stale_handle      this was moved from or consumed before.
  [[nodiscard]] Result<Channel> adopt(QueuePair connected) &&;

 private:
  friend Result<PreparedChannel> prepare_channel(ProtectionDomain const& domain,
                                                 ChannelOptions const& options);
  friend class Channel;
  struct Parts;
  explicit PreparedChannel(std::unique_ptr<Parts> parts) noexcept;
  /// Comes after a channel between these two.
  void follow(Endpoint const& own, Endpoint const& peer) noexcept;
  std::unique_ptr<Parts> parts_;
};

/// What ChannelBuilder::build() calls, for options that come as data.
///
/// Shape:   as QueuePairOptions. The completion queue is sized from the depths.
/// Errors:  those of CompletionQueue::create() and PreparedQueuePair::create(), and
///          invalid_argument  the depths together exceed what one completion queue holds, or
///                            keep_alive is not 0 and below 1 ms.
[[nodiscard]] Result<PreparedChannel> prepare_channel(ProtectionDomain const& domain,
                                                      ChannelOptions const& options);

/// The steps of a builder, as bits of what was set.
enum class BuilderStep : std::uint32_t {
  protection_domain = 1u << 0,
  send_depth = 1u << 1,
  receive_depth = 1u << 2,
  elements = 1u << 3,
  inline_bytes = 1u << 4,
  ack_timeout = 1u << 5,
  ack_retries = 1u << 6,
  receiver_not_ready_retries = 1u << 7,
  receiver_not_ready_delay = 1u << 8,
  wait = 1u << 9,
  gid = 1u << 10,  ///< by index or by address, once
  keep_alive = 1u << 11,
};

template <std::uint32_t Steps>
concept ProtectionDomainIsSet = (Steps & std::uint32_t(BuilderStep::protection_domain)) != 0;

template <std::uint32_t Steps, BuilderStep Step>
concept StepNotTakenYet = (Steps & std::uint32_t(Step)) == 0;

/// Every step once, the protection domain always; what is missing or doubled does not compile.
template <std::uint32_t Steps = 0>
class ChannelBuilder {
 public:
  ChannelBuilder() = default;

  [[nodiscard]] auto protection_domain(ProtectionDomain const& domain) const requires
      StepNotTakenYet<Steps, BuilderStep::protection_domain> {
    auto next = step<BuilderStep::protection_domain>();
    next.domain_ = domain;
    return next;
  }
  /// Sends, writes and reads outstanding at once.
  [[nodiscard]] auto send_depth(std::uint32_t requests) const requires
      StepNotTakenYet<Steps, BuilderStep::send_depth> {
    return with<BuilderStep::send_depth>(&QueuePairOptions::send_depth, requests);
  }
  /// Receives outstanding at once.
  [[nodiscard]] auto receive_depth(std::uint32_t requests) const requires
      StepNotTakenYet<Steps, BuilderStep::receive_depth> {
    return with<BuilderStep::receive_depth>(&QueuePairOptions::receive_depth, requests);
  }
  /// Elements of one gather or scatter list, at most.
  [[nodiscard]] auto elements(std::uint32_t count) const requires
      StepNotTakenYet<Steps, BuilderStep::elements> {
    return with<BuilderStep::elements>(&QueuePairOptions::elements, count);
  }
  /// Sends and writes up to this many bytes are copied when posted.
  [[nodiscard]] auto inline_bytes(std::uint32_t bytes) const requires
      StepNotTakenYet<Steps, BuilderStep::inline_bytes> {
    return with<BuilderStep::inline_bytes>(&QueuePairOptions::inline_bytes, bytes);
  }
  /// How long an acknowledgement may take: above 0, to 2.4 hours; rounded up to 4.096 µs · 2^n.
  [[nodiscard]] auto ack_timeout(std::chrono::nanoseconds timeout) const requires
      StepNotTakenYet<Steps, BuilderStep::ack_timeout> {
    return with<BuilderStep::ack_timeout>(&QueuePairOptions::ack_timeout, timeout);
  }
  /// 0 to 7.
  [[nodiscard]] auto ack_retries(std::uint8_t count) const requires
      StepNotTakenYet<Steps, BuilderStep::ack_retries> {
    return with<BuilderStep::ack_retries>(&QueuePairOptions::ack_retries, count);
  }
  /// How often a message is offered again to a peer without a receive; nothing: without end.
  [[nodiscard]] auto receiver_not_ready_retries(std::optional<std::uint8_t> count) const requires
      StepNotTakenYet<Steps, BuilderStep::receiver_not_ready_retries> {
    return with<BuilderStep::receiver_not_ready_retries>(
        &QueuePairOptions::receiver_not_ready_retries, count);
  }
  /// What a sender waits when no receive is posted: 0 to 655.36 ms, rounded up to the device's
  /// table of 32 times; 0 becomes 0.01 ms.
  [[nodiscard]] auto receiver_not_ready_delay(std::chrono::nanoseconds delay) const requires
      StepNotTakenYet<Steps, BuilderStep::receiver_not_ready_delay> {
    return with<BuilderStep::receiver_not_ready_delay>(&QueuePairOptions::receiver_not_ready_delay,
                                                       delay);
  }
  /// Uses this entry of the port's GID table instead of the best one; Context::gids() lists them.
  [[nodiscard]] auto gid_index(std::uint32_t index) const requires
      StepNotTakenYet<Steps, BuilderStep::gid> {
    return with<BuilderStep::gid>(&QueuePairOptions::gid, GidChoice{.index = index});
  }
  /// Uses the entry with this IPv4 or IPv6 address.
  [[nodiscard]] auto gid_address(std::string address) const requires
      StepNotTakenYet<Steps, BuilderStep::gid> {
    return with<BuilderStep::gid>(&QueuePairOptions::gid, GidChoice{.address = std::move(address)});
  }
  [[nodiscard]] auto wait(Wait how) const requires StepNotTakenYet<Steps, BuilderStep::wait> {
    auto next = step<BuilderStep::wait>();
    next.options_.wait = how;
    return next;
  }

  /// A receive whose peer is gone ends with peer_lost; without this only a deadline ends it.
  ///
  /// While a receive and nothing else is outstanding and a wait or a poll found nothing, the
  /// peer's device is asked every `interval`: 1 ms or more. The loss shows within `interval`, 10 ms
  /// (or the next poll, if that is later) and the retry budget, (ack_retries + 1) · ack_timeout, of
  /// which cards may take four times as much. A send, write or read that is outstanding, too, tells
  /// by itself: it fails with retry_exceeded, and the receive is flushed with that as its cause.
  /// It is the device that answers: a peer that is stopped or busy is not lost. One that has not
  /// finished its handshake within that time is. iWARP does not ask: rdma_cm tells.
  /// Costs one write of no bytes per interval of waiting, one entry each of the send and completion
  /// queue, and no loans.
  [[nodiscard]] auto keep_alive(std::chrono::nanoseconds interval) const requires
      StepNotTakenYet<Steps, BuilderStep::keep_alive> {
    auto next = step<BuilderStep::keep_alive>();
    next.options_.keep_alive = interval;
    return next;
  }

  /// Errors:  those of prepare_channel().
  [[nodiscard]] Result<PreparedChannel> build() const requires ProtectionDomainIsSet<Steps> {
    return prepare_channel(*domain_, options_);
  }

 private:
  template <std::uint32_t>
  friend class ChannelBuilder;

  template <BuilderStep Step>
  [[nodiscard]] auto step() const {
    ChannelBuilder<Steps | std::uint32_t(Step)> next;
    next.domain_ = domain_;
    next.options_ = options_;
    return next;
  }
  template <BuilderStep Step, class T>
  [[nodiscard]] auto with(T QueuePairOptions::*option, T value) const {
    auto next = step<Step>();
    next.options_.queue_pair.*option = std::move(value);
    return next;
  }

  std::optional<ProtectionDomain> domain_{};
  ChannelOptions options_{};
};

/// Begins a channel.
[[nodiscard]] inline ChannelBuilder<> channel_builder() {
  return {};
}

}  // namespace lend
