// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <base/copy_bytes.hpp>
#include <base/poison.hpp>
#include <channel/work/unheld.hpp>
#include <flow/credits.hpp>
#include <transport/ring_line.hpp>

#include <algorithm>
#include <utility>

namespace lend::transport {

using flow::cell_bytes;
using flow::cells_of;

namespace {

/// Shape: none is on loan.
std::span<std::byte> bytes_of(MemoryRegion& region) noexcept {
  auto const bytes = region.mutable_bytes();
  return bytes ? bytes.value() : std::span<std::byte>{};
}

constexpr std::size_t offset_of(std::uint32_t cell) noexcept {
  return std::size_t{cell} * cell_bytes;
}

}  // namespace

RingLine::RingLine(Channel channel, std::vector<PendingWork> handles, Rings rings,
                   std::uint32_t window, std::uint32_t messages)
    : ChannelLine{std::move(channel), std::move(handles), messages},
      rings_{std::move(rings)},
      own_{bytes_of(rings_.own)},
      staging_{bytes_of(rings_.staging)},
      staged_{static_cast<std::uint32_t>(staging_.size() / cell_bytes)},
      writes_at_once_{verbs::may_write_at_once(state().connection.raw())},
      window_{window},
      lent_(base::can_poison ? window : 0) {
  inside().open(empty_);
  base::poison(own_);
}

RingLine::~RingLine() {
  close();
  base::unpoison(own_);
}

Result<std::optional<Line::Arrival>> RingLine::next() noexcept {
  LEND_TRY(came, take_receive());
  if (!came) return std::optional<Arrival>{};
  ++spare_;
  post_spare(spare_receives);
  auto const bits = came->immediate.value_or(no_word);
  auto const word = decode(bits);
  Arrival arrival{.bits = bits,
                  .slot = window_,  // none
                  .length = static_cast<std::uint32_t>(came->bytes)};
  if (word && has_message(word->kind))
    arrival.slot = std::exchange(next_slot_, base::next_in_turn(next_slot_, window_));
  return std::optional{arrival};
}

void RingLine::post_spare(std::uint32_t enough) noexcept {
  if (spare_ >= enough) post_empty_receives(empties_, empty_, std::exchange(spare_, 0));
}

Line::Message RingLine::message(Arrival const& arrival, std::uint32_t cell) noexcept {
  auto const at = offset_of(cell);
  if constexpr (base::can_poison) {
    auto const whole = (arrival.length + base::poison_granule - 1) / base::poison_granule;
    lent_[arrival.slot] = own_.subspan(at, whole * base::poison_granule);
    base::unpoison(lent_[arrival.slot]);
  }
  return {.slot = arrival.slot,
          .bytes = own_.subspan(at, arrival.length),
          .where = rings_.own.gather(at, arrival.length)};
}

void RingLine::post_again(std::uint32_t slot) noexcept {
  // Receives are posted again as they complete.
  if constexpr (base::can_poison)
    if (slot < window_) base::poison(lent_[slot]);
}

std::optional<std::span<std::byte>> RingLine::room(std::size_t least, std::size_t most,
                                                   std::uint32_t /*cell*/) noexcept {
  if (!is_closed() && has_room_as_known(WordKind::data) && staged_.has_room(cells_of(most)))
      [[likely]]
    return next_staged(most);
  return room_after_polling(least, most);
}

[[gnu::noinline]] std::optional<std::span<std::byte>> RingLine::room_after_polling(
    std::size_t least, std::size_t most) noexcept {
  if (is_closed() || !has_room_for(WordKind::data)) return std::nullopt;
  auto const find = [&] {
    return staged_.find_room(cells_of(least), cells_of(most), messages_sent(), messages_done());
  };
  auto cells = find();
  if (!cells || *cells < cells_of(most)) {
    take_sends();
    cells = find();
  }
  if (!cells) return std::nullopt;
  return next_staged(std::min(most, offset_of(*cells)));
}

std::span<std::byte> RingLine::next_staged(std::size_t bytes) const noexcept {
  return staging_.subspan(offset_of(staged_.at()), bytes);
}

[[gnu::always_inline]] inline bool RingLine::post_message(Word const& word,
                                                          std::uint32_t cell) noexcept {
  auto const from = rings_.staging.gather(offset_of(staged_.at()), word.length);
  staged_.take(cells_of(word.length));
  auto const bits = encode(word);
  if (word.length == 0) [[unlikely]]
    return channel::post_unheld(state(), Send::only_immediate(bits), messages());
  auto const to = rings_.peers.slice(offset_of(cell), word.length);
  form_.carry(bits);
  return channel::post_unheld(form_, state(), {from, &to}, messages());
}

Result<bool> RingLine::send(Word const& word, std::uint32_t cell) noexcept {
  if (is_closed()) [[unlikely]]
    return ended();
  if (!has_message(word.kind)) [[unlikely]]
    return send_word(word);
  auto sent = note_message(post_message(word, cell));
  post_spare(spare_receives / 2);
  return sent;
}

bool RingLine::send_at_once(Word const& word, std::uint32_t cell,
                            std::span<std::byte const> bytes) noexcept {
  // What has poison is copied to staging memory, which AddressSanitizer reports.
  if (!writes_at_once_ || is_closed() || bytes.empty() || base::has_poison(bytes)) [[unlikely]]
    return false;
  // Here, where neither the channel is in use nor a lock of the device held.
  base::touch(bytes);
  form_.carry(encode(word));
  auto const to = rings_.peers.slice(offset_of(cell), bytes.size());
  if (!channel::write_at_once(form_, state(), bytes, to, messages())) return false;
  static_cast<void>(note_message(true));
  post_spare(spare_receives / 2);
  return true;
}

[[gnu::noinline]] Result<bool> RingLine::send_word(Word const& word) noexcept {
  if (!has_room_for(word.kind)) return false;
  auto sent =
      note_word(scope().try_post_send(Send::only_immediate(encode(word))), is_awaited(word));
  post_spare(spare_receives / 2);
  return sent;
}

}  // namespace lend::transport
