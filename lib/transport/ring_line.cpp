// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <base/poison.hpp>
#include <channel/unheld.hpp>
#include <transport/ring_line.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lend::transport {

using channel::cell_bytes;
using channel::cells_of;
using channel::CreditSizes;

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
      staged_{CreditSizes::of(messages, static_cast<std::uint32_t>(staging_.size() / cell_bytes))},
      window_{window},
      lent_(base::can_poison ? window : 0) {
  form_.request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  base::poison(own_);
}

RingLine::~RingLine() {
  close();
  base::unpoison(own_);
}

Result<std::optional<Line::Arrival>> RingLine::next() noexcept {
  LEND_TRY(came, take_receive());
  if (!came) return std::optional<Arrival>{};
  post_spare();
  spare_ = came->slot;
  auto const bits = came->success.immediate.value_or(no_word);
  auto const word = decode(bits);
  Arrival arrival{.bits = bits,
                  .slot = window_,  // none
                  .length = static_cast<std::uint32_t>(came->success.bytes)};
  if (word && word->kind == WordKind::data)
    arrival.slot = std::exchange(next_slot_, next_slot_ + 1 == window_ ? 0 : next_slot_ + 1);
  return std::optional{arrival};
}

void RingLine::post_spare() noexcept {
  if (spare_) post_receive(*std::exchange(spare_, std::nullopt), Receive::only_immediate());
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
  if (is_closed()) return std::nullopt;
  auto const least_cells = cells_of(least), most_cells = cells_of(most);
  auto cells = staged_.room(least_cells, most_cells);
  // That it is free is asked only where it is needed: for more cells, or for any.
  if (!cells || *cells < most_cells) {
    take_freed();
    cells = staged_.room(least_cells, most_cells);
  }
  if (!cells) {
    take_sends();
    take_freed();
    cells = staged_.room(least_cells, most_cells);
  }
  if (!cells) return std::nullopt;
  draft_at_ = staged_.place(least_cells);
  return staging_.subspan(offset_of(draft_at_), std::min(most, offset_of(*cells)));
}

void RingLine::take_freed() noexcept {
  static_cast<void>(staged_.take_freed(messages_done() % channel::freed_modulus));
}

Result<bool> RingLine::send(Word const& word, std::uint32_t cell) noexcept {
  if (is_closed()) return Error{Errc::channel_broken, "the connection was ended"};
  std::uint32_t at = 0;
  if (word.kind != WordKind::data) {
    if (!has_room_for(word.kind)) return false;
  } else {  // what staging has room for, the queue has
    // A message shorter than its draft's least may lie before the end, where that did not fit.
    at = staged_.take(cells_of(word.length));
    if (at != draft_at_)
      std::memmove(staging_.data() + offset_of(at), staging_.data() + offset_of(draft_at_),
                   word.length);
  }
  auto sent = post(word, at, cell);
  post_spare();
  return sent;
}

Result<bool> RingLine::post(Word const& word, std::uint32_t at, std::uint32_t cell) noexcept {
  auto const bits = encode(word);
  if (word.kind != WordKind::data)
    return note_word(scope().try_post_send(Send::only_immediate(bits)), word.kind);
  if (word.length == 0)
    return note_message(channel::post_unheld(state(), Send::only_immediate(bits), messages()));
  auto const to = rings_.peers.slice(offset_of(cell), word.length);
  return note_message(channel::post_unheld(
      form_, state(), {rings_.staging.gather(offset_of(at), word.length), &to}, bits, messages()));
}

}  // namespace lend::transport
