// SPDX-License-Identifier: MIT OR Apache-2.0
// A scope for datagrams, the handle of a receive, and what came. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/batch.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/datagram_work.hpp>
#include <lend/verbs/service.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace lend {

class DatagramChannel;

/// A datagram that came. A value: its message is in the room that took it.
struct ReceivedDatagram {
  GatherElement message{};                   ///< without the 40 bytes; to read, or to send on
  std::optional<std::uint32_t> immediate{};  ///< if it carried one
  DatagramSender sender{};
  /// What the device wrote before the message, copied when it came.
  std::array<std::byte, datagram_header_bytes> header{};

  [[nodiscard]] std::size_t bytes() const noexcept { return message.range.length; }
};

/// Polls or waits for one datagram: a PendingWork, whose rules and errors it has.
class [[nodiscard]] LEND_EXPORT PendingDatagram {
 public:
  /// Errors:  as PendingWork::poll(), and
  ///          stale_handle  also after a recall: no datagram has taken the room.
  [[nodiscard]] Result<std::optional<ReceivedDatagram>> poll() noexcept;
  /// Errors:  as PendingWork::wait(), and as poll().
  [[nodiscard]] Result<ReceivedDatagram> wait(Deadline deadline = Deadline::never()) noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept { return work_.id(); }

  PendingDatagram(PendingDatagram&& other) noexcept
      : work_{std::move(other.work_)},
        room_{other.room_},
        got_{std::exchange(other.got_, std::nullopt)} {}
  PendingDatagram& operator=(PendingDatagram&& other) noexcept {
    work_ = std::move(other.work_);
    room_ = other.room_;
    got_ = std::exchange(other.got_, std::nullopt);
    return *this;
  }

 private:
  friend class DatagramScope;
  PendingDatagram(PendingWork work, DatagramRoom room) noexcept
      : work_{std::move(work)}, room_{room} {}
  ReceivedDatagram const& keep(WorkSuccess const& success) noexcept;

  PendingWork work_;
  DatagramRoom room_;
  std::optional<ReceivedDatagram> got_{};
};

/// A Batch of sends, each with its own destination. From DatagramScope::batch(). Rooms are posted
/// alone.
///
///     auto batch = scope.batch();
///     for (auto const& subscriber : subscribers) {
///       LEND_TRYV(batch.add_send(news.gather(), subscriber));
///     }
///     LEND_TRYV(batch.post());
class LEND_EXPORT DatagramBatch : private Batch {
 public:
  /// As Batch::add_send(). The channel keeps the address handle from now on until another request
  /// has its slot, or the channel ends.
  /// Errors:  those of DatagramScope::post_send() and of Batch::post(); nothing was added.
  [[nodiscard]] Result<PendingWork> add_send(Send const& work, Destination const& to,
                                             Deadline deadline = Deadline::never(),
                                             SourceLine where = SourceLine::here()) noexcept {
    return add(AddressedSend{work, to}, deadline, where);
  }
  /// The same without a handle.
  [[nodiscard]] Result<void> add_send(Send const& work, Destination const& to, NoHandle,
                                      Deadline deadline = Deadline::never(),
                                      SourceLine where = SourceLine::here()) noexcept {
    return add_unheld(AddressedSend{work, to}, deadline, where);
  }
  // Without a destination it does not compile, and the compiler says why.
  template <IsService S = Ud>
  Result<PendingWork> add_send(Send const& work,
                               Deadline deadline = Deadline::never()) requires IsConnected<S>
  = delete;
  using Batch::post;
  using Batch::requests_max;
  using Batch::size;

 private:
  friend class DatagramScope;
  explicit DatagramBatch(PollingScope& scope) noexcept;
};

/// Posts datagrams and their rooms, and gets every byte back before it ends, whatever others send.
///
/// A PollingScope for datagrams, with one difference: no peer owes a datagram, so its end does not
/// wait for the receives. It waits for the sends, which end as they leave, and then recalls the
/// receives, which breaks nothing.
///
/// A recall waits for the sends of all scopes of the channel, moves the queue pair to the error
/// state, takes the rooms that the device gives back, and starts it again with the same address.
/// The receives of other scopes are posted again, in their order. Two traps. Datagrams that come
/// meanwhile are lost, also those for other scopes: keep one scope open while a program serves, and
/// end it when it stops. And where a send does not leave until the bound of drain_within(), the end
/// of the scope aborts all work, which breaks the channel. A scope without outstanding receives
/// recalls nothing.
/// Source:  InfiniBand Architecture Specification vol. 1, 10.3.1.
class DatagramScope : private PollingScope {
 public:
  explicit DatagramScope(DatagramChannel& channel LEND_LIFETIMEBOUND) noexcept;

  using PollingScope::drain_max;
  /// Bounds the wait for sends, as PollingScope::drain_within().
  DatagramScope& drain_within(std::chrono::nanoseconds bound) noexcept {
    PollingScope::drain_within(bound);
    return *this;
  }
  DatagramScope& drain_until(Deadline deadline) noexcept {
    PollingScope::drain_until(deadline);
    return *this;
  }

  /// Posts one datagram to `to`. It is over once it left; whether it arrived, nothing says. The
  /// channel keeps the address handle until another request has its slot, or the channel ends.
  ///
  /// Shape:   at most message_bytes_max(), the port's MTU.
  /// Borrows: the source shared, until the program sees the completion; of up to inline_bytes()
  ///          until this returns.
  /// Errors:  as PollingScope::post_send(), and
  ///          invalid_argument  more bytes than the MTU, or a Destination of another protection
  ///                            domain; nothing was posted.
  [[nodiscard]] Result<PendingWork> post_send(Send const& work, Destination const& to,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept {
    return post(AddressedSend{work, to}, deadline, where);
  }
  // Without a destination it does not compile, and the compiler says why.
  template <IsService S = Ud>
  Result<PendingWork> post_send(Send const& work,
                                Deadline deadline = Deadline::never()) requires IsConnected<S>
  = delete;
  template <IsService S = Ud>
  Result<PeerLoan> post_lend(ScatterElement bytes) requires HasWindows<S>
  = delete;
  template <IsService S = Ud>
  Result<PeerLoan> post_lend(GatherElement bytes) requires HasWindows<S>
  = delete;
  [[nodiscard]] Result<PendingWork> try_post_send(Send const& work, Destination const& to,
                                                  SourceLine where = SourceLine::here()) noexcept {
    return try_post(AddressedSend{work, to}, where);
  }
  /// Posts a room for one datagram, of any process that knows the address and its key. A datagram
  /// that finds no room is lost. So is one that does not fit on the soft device; other devices may
  /// break the channel. Rooms of 40 bytes and the MTU take any.
  /// Borrows: the room exclusively, until the program sees the completion or recalls it.
  /// Errors:  as PollingScope::post_receive().
  [[nodiscard]] Result<PendingDatagram> post_receive(
      DatagramRoom const& room, Deadline deadline = Deadline::never(),
      SourceLine where = SourceLine::here()) noexcept {
    return handle_of(post(RoomReceive{room.element()}, deadline, where), room);
  }
  [[nodiscard]] Result<PendingDatagram> try_post_receive(
      DatagramRoom const& room, SourceLine where = SourceLine::here()) noexcept {
    return handle_of(try_post(RoomReceive{room.element()}, where), room);
  }

  /// Starts a batch, which posts several datagrams together.
  [[nodiscard]] DatagramBatch batch() LEND_LIFETIMEBOUND { return DatagramBatch{*this}; }

  /// Gets all rooms of this scope back now, and the scope goes on. Handles of datagrams that came
  /// have them; the others are stale. Waits for sends until `deadline`.
  /// Errors:  timed_out, cancelled  a send did not leave until then; everything is as before.
  ///          system_failed  the device refused to begin again: all work was aborted, the channel
  ///                         is broken.
  ///          channel_broken, stale_handle  as post_receive().
  [[nodiscard]] LEND_EXPORT Result<void> recall(Deadline deadline = Deadline::never()) noexcept;

  /// Waits for the sends, recalls the receives, ends the scope and reports the failures that no
  /// handle reported.
  /// Errors:  as PollingScope::finish(), and as recall().
  using PollingScope::finish;
  using PollingScope::outstanding;

 private:
  friend class Channel;
  friend class SetScope;
  explicit DatagramScope(Channel& channel) noexcept : PollingScope{channel} {}
  [[nodiscard]] static Result<PendingDatagram> handle_of(Result<PendingWork> posted,
                                                         DatagramRoom const& room) noexcept {
    LEND_TRY(work, std::move(posted));
    return PendingDatagram{std::move(work), room};
  }
  using PollingScope::end;
};

// As PendingWork.
template <>
inline constexpr bool may_be_dropped<ReceivedDatagram> = true;
template <>
inline constexpr bool may_be_dropped<PendingDatagram> = true;

}  // namespace lend
