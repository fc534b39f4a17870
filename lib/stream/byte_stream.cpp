// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <base/giving_up.hpp>
#include <lend/stream/byte_stream.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lend {

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
  while (taken.bytes < target.size()) {
    auto const next = try_peek();
    if (!next) {
      if (taken.bytes > 0) return taken;  // the next call has the error
      return next.error();
    }
    auto const count = std::min(next.value().size(), target.size() - taken.bytes);
    if (count == 0) break;
    std::memcpy(target.data() + taken.bytes, next.value().data(), count);
    consume(count);
    taken.bytes += count;
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
  std::size_t written = 0;
  std::size_t left = transport::bytes_of(pieces);
  std::size_t from = 0;  // in the first piece
  while (left > 0) {
    auto made = transport_.try_draft(1, left);
    if (!made) {
      if (written > 0) return written;  // the next call has the error
      return made.error();
    }
    Draft draft = std::move(made).value();
    if (!draft) break;
    auto room = draft.bytes();
    auto const length = std::min(room.size(), left);
    for (std::size_t filled = 0; filled < length;) {
      auto const count = std::min(pieces.front().size() - from, length - filled);
      if (count > 0) std::memcpy(room.data() + filled, pieces.front().data() + from, count);
      filled += count;
      from += count;
      if (from < pieces.front().size()) continue;
      pieces = pieces.subspan(1);
      from = 0;
    }
    auto const sent = std::move(draft).send(length);
    if (!sent && written == 0) return sent.error();
    if (!sent) break;
    written += length;
    left -= length;
  }
  return written;
}

Result<std::size_t> ByteStream::write(std::span<std::byte const> source,
                                      Deadline deadline) noexcept {
  std::size_t written = 0;
  // There may be room again and again: the deadline counts in any case.
  for (bool is_late = false; written < source.size(); is_late = deadline.has_passed()) {
    auto const rest = source.subspan(written);
    auto const more = try_write({&rest, 1});
    if (!more && written > 0) break;
    if (!more) return more.error();
    written += more.value();
    if (is_late && written == 0)
      return base::gave_up(deadline, "there was no room for a byte", "; write again");
    if (is_late) break;
    if (more.value() > 0) continue;
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
