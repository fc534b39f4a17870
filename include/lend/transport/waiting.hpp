// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends, receives and ends that wait, for every transport. The thread of the transport.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace lend {

/// Bytes that are sent one after the other, from anywhere: they are copied.
using SendPieces = std::span<std::span<std::byte const> const>;

namespace transport {

/// A transport, for what waits on it.
struct Waited {
  void* transport;
  Result<bool> (*poll)(void*) noexcept;
  Result<bool> (*arm)(void*) noexcept;
  Result<int> (*descriptor)(void*) noexcept;
  Deadline (*look_again)(void*) noexcept;
  Wait how;
};
[[nodiscard]] LEND_EXPORT Result<void> wait_for_change(Waited const& waited,
                                                       Deadline deadline) noexcept;

[[nodiscard]] inline std::size_t bytes_of(SendPieces pieces) noexcept {
  std::size_t bytes = 0;
  for (auto const& piece : pieces) bytes += piece.size();
  return bytes;
}

/// As TransportBase::try_send_some(); of a transport of the program's own by a draft.
template <IsTransport T>
[[nodiscard]] Result<std::optional<std::size_t>> try_send_some(
    T& transport, std::size_t at_least, std::span<std::byte const> bytes) noexcept {
  if constexpr (requires { transport.try_send_some(at_least, bytes); }) {
    return transport.try_send_some(at_least, bytes);
  } else {
    LEND_TRY(draft, transport.try_draft(at_least, bytes.size()));
    if (!draft) return std::optional<std::size_t>{};
    auto const sent = std::min<std::size_t>(draft.bytes().size(), bytes.size());
    if (sent > 0) std::memcpy(draft.bytes().data(), bytes.data(), sent);
    LEND_TRYV(std::move(draft).send(sent));
    return std::optional{sent};
  }
}

}  // namespace transport

/// Waits until something has changed, as poll() says: spins, yields, sleeps.
/// Errors:  those of poll(), and
///          timed_out, cancelled  nothing has changed.
template <IsTransport T>
[[nodiscard]] Result<void> wait_for_change(T& transport,
                                           Deadline deadline = Deadline::never()) noexcept {
  return transport::wait_for_change(
      {
          .transport = &transport,
          .poll = [](void* it) noexcept { return static_cast<T*>(it)->poll(); },
          .arm = [](void* it) noexcept { return static_cast<T*>(it)->arm(); },
          .descriptor = [](void* it) noexcept { return static_cast<T*>(it)->descriptor(); },
          .look_again = [](void* it) noexcept { return static_cast<T*>(it)->look_again(); },
          .how = transport.limits().wait,
      },
      deadline);
}

/// Sends all pieces as one message, or nothing. False: no room now.
/// Errors:  those of try_draft() and Draft::send().
template <IsTransport T>
[[nodiscard]] Result<bool> try_send(T& transport, SendPieces pieces) noexcept {
  if (pieces.size() == 1) {
    auto const bytes = pieces.front();
    LEND_TRY(sent, transport::try_send_some(transport, bytes.size(), bytes));
    return sent.has_value();
  }
  auto const total = transport::bytes_of(pieces);
  LEND_TRY(draft, transport.try_draft(total, total));
  if (!draft) return false;
  auto* at = draft.bytes().data();
  for (auto const& piece : pieces) {
    if (!piece.empty()) std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
  LEND_TRYV(std::move(draft).send(total));
  return true;
}

/// The same, but waits for room.
/// Errors:  those of try_send(), and
///          timed_out, cancelled  nothing was sent.
template <IsTransport T>
[[nodiscard]] Result<void> send_message(T& transport, SendPieces pieces,
                                        Deadline deadline = Deadline::never()) noexcept {
  for (;;) {
    LEND_TRY(is_sent, try_send(transport, pieces));
    if (is_sent) return success();
    LEND_TRYV(wait_for_change(transport, deadline));
  }
}
template <IsTransport T>
[[nodiscard]] Result<void> send_message(T& transport, std::span<std::byte const> message,
                                        Deadline deadline = Deadline::never()) noexcept {
  return send_message(transport, SendPieces{&message, 1}, deadline);
}

/// The next message, or the end.
/// Errors:  those of try_receive(), and
///          timed_out, cancelled  nothing came; nothing was changed.
template <IsTransport T>
[[nodiscard]] Result<Received> receive_message(T& transport,
                                               Deadline deadline = Deadline::never()) noexcept {
  for (;;) {
    auto received = transport.try_receive();
    if (!received || received.value()) return received;
    LEND_TRYV(wait_for_change(transport, deadline));
  }
}

/// Ends the connection in order: finishes sending, waits until the peer's device has acknowledged
/// all that was sent, and until the peer has finished. Messages that were not received, or still
/// come, are dropped.
/// Errors:  those of finish_sending() and try_receive(), and
///          timed_out, cancelled  the peer has not finished, or not got all: call it again.
template <IsTransport T>
[[nodiscard]] Result<void> finish(T& transport, Deadline deadline) noexcept {
  // What comes is no end, again and again: the deadline counts once all that had come is dropped.
  for (bool is_late = false;; is_late = deadline.has_passed()) {
    LEND_TRYV(transport.finish_sending());
    for (std::uint32_t dropped = 0; dropped <= transport.limits().window; ++dropped) {
      LEND_TRY(received, transport.try_receive());
      if (!received) break;
      if (!received.is_end()) continue;
      if (transport.sends_in_flight() == 0) return success();
      break;
    }
    if (is_late)
      return Error{
          deadline.is_cancelled() ? Errc::cancelled : Errc::timed_out,
          "the peer has not finished, or not got all: call finish() again, or disconnect()"};
    LEND_TRYV(wait_for_change(transport, deadline));
  }
}

}  // namespace lend
