// SPDX-License-Identifier: MIT OR Apache-2.0
// What lend's own transports have in common. One thread at a time; may move between threads.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lend {

namespace transport {
class End;
}

/// The calls of an IsTransport. Its destructor ends the connection at once: messages under way may
/// be lost. To end it in order, call finish() of `waiting.hpp`, or finish_sending() and wait for
/// sends_in_flight() to become 0.
class LEND_EXPORT TransportBase {
 public:
  TransportBase(TransportBase&&) noexcept;
  TransportBase& operator=(TransportBase&&) noexcept;

  /// Room for one message of `at_least` to `at_most` bytes. Empty: the peer has no room, or this
  /// end has a draft already; try again when poll() says that something has changed.
  /// Errors:  invalid_argument  `at_least` exceeds limits().send_bytes_max, or `at_most`.
  ///          finished          finish_sending() was called.
  ///          peer_lost         the connection is gone.
  ///          incompatible_peer  the peer broke the rules, and was disconnected.
  ///          channel_broken    disconnect() was called.
  [[nodiscard]] Result<Draft> try_draft(std::size_t at_least, std::size_t at_most) noexcept;
  /// The next message, the end once the peer has finished, or nothing. All that came before a loss
  /// comes before its error.
  /// Errors:  as try_draft(), but for the first two. Only a peer that finished is an end: one that
  ///          just stops is peer_lost.
  [[nodiscard]] Result<Received> try_receive() noexcept;
  /// Half close: the peer receives the end after all that was sent. Posts at once, whatever else is
  /// under way. Again: nothing happens.
  /// Errors:  peer_lost, incompatible_peer, channel_broken  the peer may not have got all.
  [[nodiscard]] Result<void> finish_sending() noexcept;
  /// Ends the connection at once; again: nothing happens. What has come can still be received.
  void disconnect() noexcept;

  // ---- in the program's own event loop: as Channel's ----

  /// Takes what has come, without waiting. True if something has changed since the last call: a
  /// message, room, an acknowledgement, the end or a loss.
  [[nodiscard]] Result<bool> poll() noexcept;
  /// Errors:  those of Channel::arm().
  [[nodiscard]] Result<bool> arm() noexcept;
  /// Errors:  those of Channel::descriptor(), and
  ///          channel_broken  the connection has ended; the descriptor is closed.
  [[nodiscard]] Result<int> descriptor() const noexcept;
  [[nodiscard]] Deadline look_again() const noexcept;

  /// Messages, and the finish of finish_sending(), that the peer's device has not acknowledged, as
  /// far as poll() knows; also a finish that could not be sent. Of a ReadRing: those that the peer
  /// has not read, and what tells the peer how much this end has read.
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept;
  [[nodiscard]] TransportLimits const& limits() const noexcept;
  /// As Channel::settings(); of a memory transport, and once the connection has ended, empty.
  [[nodiscard]] std::vector<Setting> settings() const;

 protected:
  explicit TransportBase(std::unique_ptr<transport::End> end) noexcept;
  ~TransportBase();

 private:
  [[nodiscard]] transport::End& end() const noexcept;  // stops where it was moved from
  std::unique_ptr<transport::End> end_;
};

}  // namespace lend
