// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <base/copy_bytes.hpp>
#include <base/giving_up.hpp>
#include <lend/stream/byte_stream.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace lend {

namespace {

/// As many as fit.
std::size_t copy_into(std::span<std::byte> room, std::span<std::byte const> bytes) noexcept {
  auto const count = std::min(room.size(), bytes.size());
  base::copy_bytes(room.first(count), bytes.first(count));
  return count;
}

/// Calls `send_next(written)`, which sends a message and answers of how many bytes, until `bytes`
/// are written or it answers that there is no room. The error, if nothing was written.
template <class SendNext>
[[gnu::always_inline]] inline Result<std::size_t> write_by(std::size_t bytes,
                                                           SendNext&& send_next) noexcept {
  std::size_t written = 0;
  while (written < bytes) {
    auto const made = send_next(written);
    if (!made) [[unlikely]] {
      if (written > 0) break;  // the next call has the error
      return made.error();
    }
    auto const sent = made.assume_value();
    if (!sent) break;
    written += *sent;
  }
  return written;
}

[[gnu::always_inline]] inline Result<std::size_t> write_piece(
    AnyTransport& transport, std::span<std::byte const> bytes) noexcept {
  return write_by(bytes.size(), [&](std::size_t written) {
    return transport.try_send_some(1, bytes.subspan(written));
  });
}

/// What is left of pieces.
class Rest {
 public:
  explicit Rest(SendPieces pieces) noexcept : pieces_{pieces} {}

  /// Of the first piece that has some left.
  [[nodiscard]] std::span<std::byte const> next() noexcept {
    while (from_ == pieces_.front().size()) {
      pieces_ = pieces_.subspan(1);
      from_ = 0;
    }
    return pieces_.front().subspan(from_);
  }
  /// Takes so many of next().
  void take(std::size_t bytes) noexcept { from_ += bytes; }
  /// Copies as many as fit.
  void take_into(std::span<std::byte> room) noexcept {
    while (!room.empty()) {
      auto const count = copy_into(room, next());
      room = room.subspan(count);
      take(count);
    }
  }

 private:
  SendPieces pieces_;
  std::size_t from_ = 0;  // in the first piece
};

/// Sends a message of `left` bytes or fewer; of how many. Nothing: no room now.
Result<std::optional<std::size_t>> send_next(AnyTransport& transport, Rest& rest,
                                             std::size_t left) noexcept {
  auto const piece = rest.next();
  // One piece fills the message: it need not be copied to be gathered.
  if (piece.size() >= std::min<std::size_t>(left, transport.limits().send_bytes_max)) {
    auto sent = transport.try_send_some(1, piece);
    if (sent) rest.take(sent.value().value_or(0));
    return sent;
  }
  LEND_TRY(draft, transport.try_draft(1, left));
  if (!draft) return std::optional<std::size_t>{};
  auto const room = draft.bytes().first(std::min(draft.bytes().size(), left));
  rest.take_into(room);
  LEND_TRYV(std::move(draft).send(room.size()));
  return std::optional{room.size()};
}

}  // namespace

ByteStream::ByteStream(AnyTransport transport) noexcept : transport_{std::move(transport)} {}

// ---- reading ----

Result<std::span<std::byte const>> ByteStream::try_peek() noexcept {
  // Above: of a stream that was moved from, which the transport says.
  for (std::uint32_t empty = 0; read_ >= current_.bytes().size() && !is_at_end_;) {
    current_ = Received{};  // gives the room back before the next is asked for
    read_ = 0;
    LEND_TRY(next, transport_.try_receive());
    if (!next) break;
    is_at_end_ = next.is_end();
    current_ = std::move(next);
    // All that had come is seen: a peer may go on sending empty messages for ever.
    if (current_.bytes().empty() && ++empty > transport_.limits().window) break;
  }
  return current_.bytes().subspan(read_);
}

void ByteStream::consume(std::size_t bytes) noexcept {
  read_ += std::min(bytes, current_.bytes().size() - read_);
  if (read_ < current_.bytes().size()) return;
  current_ = Received{};
  read_ = 0;
}

Result<ByteStream::Taken> ByteStream::try_read(std::span<std::byte> target) noexcept {
  Taken taken;
  std::uint32_t empty = 0;
  while (taken.bytes < target.size()) {
    auto const room = target.subspan(taken.bytes);
    if (read_ < current_.bytes().size()) {
      auto const rest = current_.bytes().subspan(read_);
      taken.bytes += copy_into(room, rest);
      consume(room.size());
      continue;
    }
    if (is_at_end_) break;
    auto next = transport_.try_receive();
    if (!next) [[unlikely]] {
      if (taken.bytes > 0) return taken;  // the next call has the error
      return next.error();
    }
    if (!next.value()) break;
    auto const bytes = next.value().bytes();
    taken.bytes += copy_into(room, bytes);
    is_at_end_ = next.value().is_end();
    // As in try_peek().
    empty = bytes.empty() ? empty + 1 : 0;
    if (empty > transport_.limits().window) [[unlikely]]
      break;
    if (bytes.size() <= room.size()) continue;  // its room goes back
    current_ = std::move(next).value();
    read_ = room.size();
  }
  taken.at_end = is_at_end_ && taken.bytes == 0;
  return taken;
}

Result<ByteStream::Taken> ByteStream::read_some(std::span<std::byte> target,
                                                Deadline deadline) noexcept {
  // What changes may be no byte, again and again: the deadline counts in any case.
  for (bool is_late = false;; is_late = deadline.has_passed()) {
    LEND_TRY(taken, try_read(target));
    if (taken.bytes > 0 || taken.at_end || target.empty()) return taken;
    if (is_late) return base::gave_up(deadline, "the peer sent no byte", "; read again");
    LEND_TRYV(wait_for_change(deadline));
  }
}

// ---- writing ----

Result<std::size_t> ByteStream::try_write(SendPieces pieces) noexcept {
  if (pieces.size() == 1) return write_piece(transport_, pieces.front());
  Rest rest{pieces};
  auto const bytes = transport::bytes_of(pieces);
  return write_by(
      bytes, [&](std::size_t written) { return send_next(transport_, rest, bytes - written); });
}

Result<std::size_t> ByteStream::write(std::span<std::byte const> source,
                                      Deadline deadline) noexcept {
  std::size_t written = 0;
  // There may be room again and again: the deadline counts in any case.
  for (bool is_late = false; written < source.size(); is_late = deadline.has_passed()) {
    auto const more = write_piece(transport_, source.subspan(written));
    if (!more && written > 0) break;
    if (!more) return more.error();
    auto const count = more.assume_value();
    written += count;
    if (is_late && written == 0)
      return base::gave_up(deadline, "there was no room for a byte", "; write again");
    if (is_late) break;
    if (count > 0) continue;
    auto const changed = wait_for_change(deadline);
    if (!changed && written > 0) break;
    if (!changed) return changed.error();
  }
  return written;
}

Result<void> ByteStream::finish(Deadline deadline) noexcept {
  current_ = Received{};
  read_ = 0;
  return lend::finish(transport_, deadline);
}

}  // namespace lend
