// SPDX-License-Identifier: MIT OR Apache-2.0
// Lent messages by calls that wait. The thread of the transport.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/transport/lent_message.hpp>
#include <lend/transport/received.hpp>
#include <lend/transport/transport.hpp>
#include <lend/transport/waiting.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <concepts>

namespace lend {

namespace transport {
/// A message that was not lent, to its target. True.
/// Errors:  those of TransportBase::try_fetch().
[[nodiscard]] LEND_EXPORT Result<bool> copy_message(Received const& message,
                                                    ScatterElement const& target) noexcept;
}  // namespace transport

/// A transport whose messages can be lent, as TransportBase says.
template <class T>
concept LendsMessages = requires(T& t, GatherElement const& bytes, Received const& message,
                                 ScatterElement const& target, SourceLine where) {
  { t.try_send_lent(bytes, where) }
  noexcept->std::same_as<Result<LentMessage>>;
  { t.try_fetch(message, target, where) }
  noexcept->std::same_as<Result<bool>>;
};

/// Sends these bytes as one message that the peer reads where they lie; waits for room.
/// Borrows: the bytes, shared, until LentMessage::is_over().
/// Errors:  those of TransportBase::try_send_lent(), and
///          timed_out, cancelled  nothing was sent.
template <LendsMessages T>
[[nodiscard]] Result<LentMessage> send_lent(T& transport, GatherElement const& bytes,
                                            Deadline deadline = Deadline::never(),
                                            SourceLine where = SourceLine::here()) noexcept {
  for (;;) {
    auto lent = transport.try_send_lent(bytes, where);
    if (!lent || lent.value()) return lent;
    LEND_TRYV(wait_for_change(transport, deadline));
  }
}

/// Waits until the peer has read or dropped the message, which this transport has lent.
/// Errors:  those of LentMessage::is_over() and poll(), and
///          timed_out, cancelled  the bytes are still on loan.
template <LendsMessages T>
[[nodiscard]] Result<void> wait_until_over(T& transport, LentMessage const& lent,
                                           Deadline deadline = Deadline::never()) noexcept {
  for (;;) {
    LEND_TRY(is_over, lent.is_over());
    if (is_over) return success();
    LEND_TRYV(wait_for_change(transport, deadline));
  }
}

/// The whole message, lent or not, to `target`, which has its length().
///
///     LEND_TRY(message, receive_message(transport, within(5s)));
///     if (message.is_end()) return lend::success();
///     LEND_TRYV(fetch(transport, message, field.scatter(0, message.length()), within(5s)));
///
/// Borrows: the target, exclusively, until success or an error but those of the deadline.
/// Errors:  those of TransportBase::try_fetch(), and
///          timed_out, cancelled  it is still being read: call this again, or drop the message.
template <LendsMessages T>
[[nodiscard]] Result<void> fetch(T& transport, Received const& message,
                                 ScatterElement const& target,
                                 Deadline deadline = Deadline::never(),
                                 SourceLine where = SourceLine::here()) noexcept {
  for (;;) {
    LEND_TRY(is_there, transport.try_fetch(message, target, where));
    if (is_there) return success();
    LEND_TRYV(wait_for_change(transport, deadline));
  }
}

}  // namespace lend
