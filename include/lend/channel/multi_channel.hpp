// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels to many peers, by number, and calls that concern several of them. The thread of their
// set.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/peer_work.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lend {

namespace channel {
class GroupedCalls;
}

/// Channels to peers 0 … size() − 1, all of one WaitSet.
///
/// A grouped call posts a request for each row, then waits for all. Each row is tried, whatever the
/// others do, and has its Outcome: a peer that fails costs its own rows only. Rows of one peer are
/// posted in their order. What takes time is done for all peers at once, so that a call takes as
/// long as its slowest peer.
///
///     LEND_TRY(peers, MultiChannel::adopt(std::move(channels)));
///     std::array<Outcome, 2> rows;
///     LEND_TRYV(peers.scatter_send(std::array{PeerSend{0, memory.gather(0, 64)},
///                                             PeerSend{1, memory.gather(64, 64)}}, rows));
class LEND_EXPORT MultiChannel {
 public:
  /// Channel i becomes peer i. Each keeps the keep-alive that it was built with, if any.
  /// Errors:  invalid_argument  there is no channel, or one is not of the first one's WaitSet; its
  ///                            number is named, and all channels end.
  ///          exhausted         no memory.
  [[nodiscard]] static Result<MultiChannel> adopt(std::vector<Channel> channels);
  MultiChannel(MultiChannel&&) noexcept;
  MultiChannel& operator=(MultiChannel&&) noexcept;
  ~MultiChannel();

  [[nodiscard]] std::uint32_t size() const noexcept;
  /// Stops the process if there is no such peer. A broken channel can be prepared again and
  /// replaced by the new one:
  ///     LEND_TRY(prepared, std::move(peers[3]).prepare_again());
  ///     LEND_TRY(channel, std::move(prepared).handshake(theirs));
  ///     peers[3] = std::move(channel);
  [[nodiscard]] Channel& operator[](std::uint32_t peer) & noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Channel const& operator[](std::uint32_t peer) const& noexcept LEND_LIFETIMEBOUND;

  /// Posts one request for each row and waits for all.
  ///
  /// At the deadline the work that is still outstanding is aborted to get its bytes back, which
  /// breaks the channels concerned and no others.
  /// Shape:   as many outcomes as rows. Each request as of PollingScope::post_send().
  /// Borrows: each source shared, each target exclusively, until the call returns.
  /// Errors:  invalid_argument  another number of outcomes, or a peer that does not exist: nothing
  ///                            was posted, and every row is `unposted`.
  ///          exhausted         no memory; nothing was posted.
  ///          of a row          the first row that was not posted or failed, if possible one that
  ///                            was not only flushed; drained() has those of the other rows. Each
  ///                            row's errors are those of Channel::send(); its bytes are back.
  [[nodiscard]] Result<void> scatter_send(std::span<PeerSend const> works,
                                          std::span<Outcome> outcomes,
                                          Deadline deadline = Deadline::never(),
                                          SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> gather_receive(std::span<PeerReceive const> works,
                                            std::span<Outcome> outcomes,
                                            Deadline deadline = Deadline::never(),
                                            SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> scatter_write(std::span<PeerWrite const> works,
                                           std::span<Outcome> outcomes,
                                           Deadline deadline = Deadline::never(),
                                           SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> gather_read(std::span<PeerRead const> works,
                                         std::span<Outcome> outcomes,
                                         Deadline deadline = Deadline::never(),
                                         SourceLine where = SourceLine::here()) noexcept;
  /// Sends the same bytes to each of `peers`, by one send for each: no multicast of the network.
  [[nodiscard]] Result<void> multicast_send(std::span<std::uint32_t const> peers, Send const& work,
                                            std::span<Outcome> outcomes,
                                            Deadline deadline = Deadline::never(),
                                            SourceLine where = SourceLine::here()) noexcept;

 private:
  friend class MultiScope;
  explicit MultiChannel(std::unique_ptr<channel::GroupedCalls> state) noexcept;
  [[nodiscard]] channel::GroupedCalls& state() const noexcept;  // stops where it was moved from
  std::unique_ptr<channel::GroupedCalls> state_;
};

/// Channels to many peers that are not connected yet.
class LEND_EXPORT PreparedMultiChannel {
 public:
  /// Prepares `count` channels of `set`, all with `options`; peer i has the tag options.tag + i.
  /// Unless options.keep_alive says otherwise, receives of a peer that died end with peer_lost a
  /// second later, as ChannelBuilder::keep_alive() says. That costs a request of the send queue and
  /// an entry of the completion queue for each peer; and, while the program waits or polls and only
  /// receives of a peer are outstanding, one write of no bytes a second to that peer.
  /// Shape:   options.wait_set is replaced.
  /// Errors:  those of prepare_channel(), and
  ///          invalid_argument  no peers.
  [[nodiscard]] static Result<PreparedMultiChannel> prepare(ProtectionDomain const& domain,
                                                            WaitSet& set, std::uint32_t count,
                                                            ChannelOptions options = {});

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(channels_.size());
  }
  /// This end's addresses: peer i needs that of number i.
  [[nodiscard]] std::vector<Endpoint> endpoints() const;
  /// To post receives before the connection, or to connect one by other means. Stops the process if
  /// there is no such peer.
  [[nodiscard]] PreparedChannel& operator[](std::uint32_t peer) & noexcept LEND_LIFETIMEBOUND;

  /// Connects channel i to peers[i], as PreparedChannel::handshake(). Consumes this object, also
  /// when it fails, unless the number is wrong.
  /// Errors:  those of PreparedChannel::handshake() for the first that fails, and
  ///          invalid_argument  not as many endpoints as channels; nothing happened.
  [[nodiscard]] Result<MultiChannel> handshake(std::span<Endpoint const> peers) &&;

 private:
  explicit PreparedMultiChannel(std::vector<PreparedChannel> channels) noexcept
      : channels_{std::move(channels)} {}
  std::vector<PreparedChannel> channels_;
};

}  // namespace lend
