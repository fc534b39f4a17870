// SPDX-License-Identifier: MIT OR Apache-2.0
// The exchange over TCP in two steps, for programs that tell each other more than endpoints, and
// that post receives or refuse before they connect. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>
#include <lend/verbs/endpoint.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace lend {

namespace network {
struct Peer;
}

/// How many bytes of its own a program can tell by meet().
inline constexpr std::size_t note_bytes_max = 64;

class Meeting;
/// The first step of connect(): tells the listener at `address` this endpoint and note.
///
/// Shape:   note_bytes_max bytes of note at most.
/// Errors:  those of connect(), but for handshake()'s; and
///          invalid_argument  the note is too long.
[[nodiscard]] LEND_EXPORT Result<Meeting> meet(std::string_view address, Endpoint const& endpoint,
                                               std::span<std::byte const> note, Deadline deadline,
                                               ExchangeOptions const& options = {});

/// A peer that was met and now connects, as this end is to do. Both tell each other by settle().
///
/// Dropped, the peer's settle() returns peer_lost.
///
///     LEND_TRY(met, listener.meet(prepared.endpoint(), note, deadline));
///     auto channel = std::move(prepared).handshake(met.endpoint());
///     LEND_TRYV(std::move(met).settle(channel ? success() : channel.error(), deadline));
class LEND_EXPORT Meeting {
 public:
  Meeting(Meeting&&) noexcept;
  Meeting& operator=(Meeting&&) noexcept;
  ~Meeting();

  /// The peer's. Both stop the process where this was moved from.
  [[nodiscard]] Endpoint const& endpoint() const noexcept LEND_LIFETIMEBOUND;
  /// What it told; untrusted.
  [[nodiscard]] std::span<std::byte const> note() const noexcept LEND_LIFETIMEBOUND;

  /// Tells the peer what became of this end, and waits for what became of its own: success means
  /// that both are connected. Consumes this object.
  /// Errors:  that of `outcome`, if it has one; the peer learns its message. Otherwise
  ///          incompatible_peer  the peer refused this end; the message says why.
  ///          peer_lost          it went away, could not connect its end, or sent nothing for 30 s.
  ///          timed_out, cancelled  it has not connected its end.
  [[nodiscard]] Result<void> settle(Result<void> const& outcome, Deadline deadline) &&;

 private:
  friend class Listener;
  friend Result<Meeting> meet(std::string_view, Endpoint const&, std::span<std::byte const>,
                              Deadline, ExchangeOptions const&);
  explicit Meeting(network::Peer peer);
  [[nodiscard]] network::Peer const& peer() const noexcept;
  std::unique_ptr<network::Peer> peer_;
};

}  // namespace lend
