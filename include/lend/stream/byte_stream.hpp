// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes in order over any transport, as over a socket. One thread at a time; may move between
// threads.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/draft.hpp>
#include <lend/transport/received.hpp>
#include <lend/transport/waiting.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lend {

/// A stream of bytes: read and written in parts of any length.
///
/// The device sees only memory of the transport: bytes are copied in by a write and out by a read,
/// so that a call that gives up has left nothing under way. try_peek() and try_draft() read and
/// write in place. The stream ends when the peer finishes, and only then: a connection that just
/// stops is peer_lost, and what came before is read first. The trap: the destructor ends the
/// connection at once; finish() ends it in order.
///
///     ByteStream stream{std::move(transport)};
///     LEND_TRY(written, stream.write(request, within(1s)));
///     for (;;) {
///       LEND_TRY(got, stream.read_some(buffer, within(1s)));
///       if (got.at_end) break;
///       use(buffer, got.bytes);
///     }
///     return stream.finish(within(1s));
class LEND_EXPORT ByteStream {
 public:
  /// Of a transport whose peer lends none: TransportOptions::lent_bytes_max is 0.
  explicit ByteStream(AnyTransport transport) noexcept;

  struct Taken {
    std::size_t bytes = 0;
    bool at_end = false;  ///< and no bytes: the peer has finished
  };

  // ---- reading ----

  /// Copies what has come, as far as `target` has room. None and not at_end: nothing has come.
  /// Errors:  those of AnyTransport::try_receive().
  [[nodiscard]] Result<Taken> try_read(std::span<std::byte> target) noexcept;
  /// The same, but waits for one byte or the end. Into no room it reads nothing, at once.
  /// Errors:  those of try_read(), and
  ///          timed_out, cancelled  nothing came; nothing was read.
  [[nodiscard]] Result<Taken> read_some(std::span<std::byte> target,
                                        Deadline deadline = Deadline::never()) noexcept;
  /// The next bytes where they lie, until consume() or a read; none: nothing has come, or
  /// is_at_end().
  /// Errors:  those of try_read().
  [[nodiscard]] Result<std::span<std::byte const>> try_peek() noexcept LEND_LIFETIMEBOUND;
  /// The first `bytes` of what try_peek() showed are read; at most all of them.
  void consume(std::size_t bytes) noexcept;
  /// Whether all was read and the peer has finished, as the last read or peek found.
  [[nodiscard]] bool is_at_end() const noexcept { return is_at_end_; }

  // ---- writing ----

  /// Copies and sends as much as there is room for; how many bytes. 0: no room now.
  /// Errors:  those of AnyTransport::try_draft() and Draft::send(), if nothing was sent.
  [[nodiscard]] Result<std::size_t> try_write(SendPieces pieces) noexcept;
  /// Sends all. Fewer than all only if the deadline passed, also while there was room, or the
  /// stream broke, after some were sent: the next call says so. In any case it tries once.
  /// Errors:  those of try_write(), and
  ///          timed_out, cancelled  nothing was sent.
  [[nodiscard]] Result<std::size_t> write(std::span<std::byte const> source,
                                          Deadline deadline = Deadline::never()) noexcept;
  /// Room to write in place, as AnyTransport::try_draft().
  [[nodiscard]] Result<Draft> try_draft(std::size_t at_least, std::size_t at_most) noexcept {
    return transport_.try_draft(at_least, at_most);
  }

  // ---- ends ----

  /// Half close: the peer reads to the end, and this end may read on.
  /// Errors:  as AnyTransport::finish_sending().
  [[nodiscard]] Result<void> finish_writing() noexcept { return transport_.finish_sending(); }
  /// finish_writing(), then waits until the peer's device has all that was written, and the peer
  /// has finished, too. What was not read is dropped.
  /// Errors:  those of lend::finish(): after timed_out call it again.
  [[nodiscard]] Result<void> finish(Deadline deadline) noexcept;
  /// As AnyTransport::disconnect().
  void disconnect() noexcept { transport_.disconnect(); }

  // ---- in the program's own event loop: as AnyTransport's ----

  /// Waits until poll() is true: for a program that reads and writes at once.
  /// Errors:  those of poll(), and timed_out, cancelled.
  [[nodiscard]] Result<void> wait_for_change(Deadline deadline = Deadline::never()) noexcept {
    return lend::wait_for_change(transport_, deadline);
  }
  [[nodiscard]] Result<bool> poll() noexcept { return transport_.poll(); }
  [[nodiscard]] Result<bool> arm() noexcept { return transport_.arm(); }
  [[nodiscard]] Result<int> descriptor() const noexcept { return transport_.descriptor(); }
  [[nodiscard]] Deadline look_again() const noexcept { return transport_.look_again(); }
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept {
    return transport_.sends_in_flight();
  }
  [[nodiscard]] TransportLimits const& limits() const noexcept { return transport_.limits(); }

 private:
  AnyTransport transport_;
  Received current_{};    // the message that is being read
  std::size_t read_ = 0;  // bytes of it
  bool is_at_end_ = false;
};

}  // namespace lend
