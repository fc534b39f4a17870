// SPDX-License-Identifier: MIT OR Apache-2.0
// What lend's own transports have in common. One thread at a time; may move between threads.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/transport/lent_message.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  /// Sends `at_least` to all of these bytes as one message, as many as there is room for; how many.
  /// Nothing: no room now, as of try_draft(). Copies them: a CreditRing on the soft device to the
  /// peer where it can, else as into a draft.
  /// Errors:  those of try_draft(), of so many bytes; nothing was sent.
  [[nodiscard]] Result<std::optional<std::size_t>> try_send_some(
      std::size_t at_least, std::span<std::byte const> bytes) noexcept;
  /// The next message, the end once the peer has finished, or nothing. All that came before a loss
  /// comes before its error.
  /// Errors:  as try_draft(), but for the first two. Only a peer that finished is an end: one that
  ///          just stops is peer_lost.
  [[nodiscard]] Result<Received> try_receive() noexcept;
  /// Half close: the peer receives the end after all that was sent. Posts at once, whatever else is
  /// under way. Again: nothing happens.
  /// Errors:  peer_lost, incompatible_peer, channel_broken  the peer may not have got all.
  [[nodiscard]] Result<void> finish_sending() noexcept;
  /// Sends these bytes, of any length, as one message in order with the others, which the peer
  /// reads where they lie; at most 4 at a time. Empty: no room now, as of try_draft().
  ///
  /// Costs a registration, unless their region is exposed for RemoteAccess::read: the key of such a
  /// region lives on, and the peer could use it after the loan. Other keys end with their message,
  /// as Exposure::finish() says, also in the call that finds the connection lost.
  /// Borrows: the bytes, shared, until LentMessage::is_over().
  /// Errors:  those of try_draft() and MemoryRegion::unsafe_expose(), and
  ///          invalid_argument  out of bounds, no bytes, or of another ProtectionDomain.
  ///          already_borrowed  some are on loan to be written.
  ///          unsupported       the peer takes none: its TransportOptions::lent_bytes_max; or no
  ///                            READs of the peer's reach this end.
  [[nodiscard]] Result<LentMessage> try_send_lent(GatherElement const& bytes,
                                                  SourceLine where = SourceLine::here()) noexcept;
  /// The whole message to `target`, which has its length(). True: it is there. False: it is being
  /// read; call this again with the same target when poll() says that something has changed.
  /// Copies a message that was not lent.
  /// Borrows: the target, exclusively, until true or an error; a message beyond 1 GiB is read in
  ///          pieces, and each is borrowed while it is read.
  /// Errors:  invalid_argument  no message, or of another transport; the target has another length,
  ///                            is out of bounds, of another ProtectionDomain, or not the one
  ///                            where it is being read to; a lent message that was read before.
  ///          already_borrowed  some of the target is on loan.
  ///          unsupported       the connection takes no READs of this end: drop the message.
  ///          peer_lost         and the others of try_draft(); the target has some of it.
  [[nodiscard]] Result<bool> try_fetch(Received const& message, ScatterElement const& target,
                                       SourceLine where = SourceLine::here()) noexcept;
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
  /// far as poll() knows; also a finish that could not be sent, messages that are lent, and lent
  /// ones of the peer's that were dropped, until it learns that. Of a ReadRing: those that the peer
  /// has not read, and what tells it how much this end has read.
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
