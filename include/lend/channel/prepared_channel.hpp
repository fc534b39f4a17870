// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel before it is connected. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <lend/verbs/work_request.hpp>

#include <memory>
#include <utility>

namespace lend {

/// A channel that is not connected yet.
class LEND_EXPORT PreparedChannel {
 public:
  PreparedChannel(PreparedChannel&&) noexcept;
  PreparedChannel& operator=(PreparedChannel&&) noexcept;
  ~PreparedChannel();

  /// Whether it was moved from or consumed: it can only be destroyed.
  [[nodiscard]] bool is_used_up() const noexcept { return state_ == nullptr; }

  /// This end's address, which the peer needs.
  [[nodiscard]] Endpoint const& endpoint() const noexcept;

  /// Posts a receive before the connection exists, so that the peer's first message finds it.
  ///
  /// The channel of handshake() or adopt() keeps it. Until then the handle's poll() has no result,
  /// and its wait() returns invalid_argument. Never waits.
  /// Borrows: the target exclusively, until any poll of the channel sees the completion. If this
  ///          object is destroyed, or handshake() or adopt() fails, the bytes come back at once,
  ///          and the handle returns stale_handle.
  /// Errors:  as PollingScope::try_post_receive(), and
  ///          invalid_argument  take_queue_pair() was called before.
  /// Source:  ibv_post_recv(3): receives are accepted from INIT on.
  [[nodiscard]] Result<PendingWork> post_receive(Receive const& work,
                                                 SourceLine where = SourceLine::here()) noexcept;

  /// Connects the local queue pair to `peer`'s address (RTR, RTS). Local: no network round trip.
  ///
  /// The peer must do the same with this end's endpoint(). For a loop-back pass its own endpoint.
  /// Kind of device, link layer and form of address must fit; of MTU and reads in flight the
  /// smaller ones apply; depths are not compared (see Endpoint).
  /// Consumes this object, also when it fails. Takes no deadline: only the kernel may block, which
  /// on RoCE resolves the peer's hardware address and gives up after 1 s.
  ///
  /// Errors:  those of PreparedQueuePair::connect(), and
  ///          exhausted          no memory or descriptors for the channel.
  ///          stale_handle       it was moved from or consumed before.
  ///          incompatible_peer  after prepare_again(): `peer` is an endpoint of a previous
  ///                             connection. This object stays usable, for the right endpoint.
  /// Source:  Linux drivers/infiniband/core/addr.c, rdma_addr_find_l2_eth_by_grh().
  [[nodiscard]] Result<Channel> handshake(Endpoint const& peer) &&;

  /// Moves the queue pair out, to connect it by other means than endpoints (cm_connect()); give the
  /// connected one to adopt(). A second call returns a moved-from queue pair.
  ///
  /// If receives were posted and this object is destroyed before adopt(), it aborts what the queue
  /// pair still has of them. If the device refuses that, their bytes stay on loan for good.
  [[nodiscard]] PreparedQueuePair take_queue_pair() noexcept;
  /// Makes the channel over the queue pair of take_queue_pair(). Consumes this object, also when it
  /// fails.
  ///
  /// The caller owes: nothing was posted by unsafe_post_*() of `connected`, whose completions the
  /// channel could not match.
  /// Errors:  invalid_argument  `connected` is another queue pair, or was moved from.
  ///          exhausted         no memory for the channel.
  ///          stale_handle      it was moved from or consumed before.
  [[nodiscard]] Result<Channel> adopt(QueuePair connected) &&;

 private:
  friend class Channel;
  friend class channel::ChannelState;
  explicit PreparedChannel(std::unique_ptr<channel::ChannelState> state) noexcept;
  [[nodiscard]] channel::ChannelState& state() const noexcept;  // stops where it was moved from
  /// Refuses the endpoints of `before` and of its previous connections.
  void follow(channel::ChannelState& before) noexcept;
  std::unique_ptr<channel::ChannelState> state_;
};

/// Connects two channels of this process with each other: both handshakes. Consumes both, also when
/// it fails.
///
///     LEND_TRY(both, connect_local(std::move(one), std::move(other)));
///     auto& [near, far] = both;
///
/// Errors:  those of PreparedChannel::handshake(). Nothing is connected.
[[nodiscard]] LEND_EXPORT Result<std::pair<Channel, Channel>> connect_local(PreparedChannel one,
                                                                            PreparedChannel other);

}  // namespace lend
