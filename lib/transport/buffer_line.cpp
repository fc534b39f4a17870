// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <channel/work/unheld.hpp>
#include <transport/buffer_line.hpp>

namespace lend::transport {

BufferLine::BufferLine(Channel channel, std::vector<PendingWork> handles, Buffers receives,
                       Buffers sends, Buffers words)
    : ChannelLine{std::move(channel), std::move(handles), sends.count()},
      receives_{std::move(receives)},
      sends_{std::move(sends)},
      words_{std::move(words)} {}

Result<std::optional<Line::Arrival>> BufferLine::next() noexcept {
  LEND_TRY(came, take_receive());
  if (!came) return std::optional<Arrival>{};
  auto const slot = came->slot;
  if (came->bytes < word_bytes) return std::optional{Arrival{.bits = no_word, .slot = slot}};
  return std::optional{Arrival{.bits = load(receives_.word(slot)),
                               .slot = slot,
                               .length = static_cast<std::uint32_t>(came->bytes - word_bytes)}};
}

Line::Message BufferLine::message(Arrival const& arrival, std::uint32_t /*cell*/) noexcept {
  return {.slot = arrival.slot,
          .bytes = {receives_.message(arrival.slot), arrival.length},
          .where = receives_.message_of(arrival.slot, arrival.length)};
}

void BufferLine::post_again(std::uint32_t slot) noexcept {
  post_receive(slot, receives_.whole(slot));
}

std::optional<std::span<std::byte>> BufferLine::room(std::size_t /*least*/, std::size_t most,
                                                     std::uint32_t /*cell*/) noexcept {
  if (is_closed() || !has_room_for(WordKind::data)) return std::nullopt;
  return std::span{sends_.message(next_send_), most};
}

Result<bool> BufferLine::send(Word const& word, std::uint32_t /*cell*/) noexcept {
  if (is_closed()) return ended();
  bool const is_message = has_message(word.kind);
  auto& buffers = is_message ? sends_ : words_;
  auto& next = is_message ? next_send_ : next_word_;
  if (!has_room_for(word.kind)) return false;
  store(buffers.word(next), encode(word));  // behind it the zeros of fresh memory
  auto const bytes = buffers.first(next, bytes_with(word));
  auto sent = is_message ? note_message(channel::post_unheld(form_, state(), {bytes}, messages()))
                         : note_word(scope().try_post_send(bytes), is_awaited(word));
  if (sent) next = base::next_in_turn(next, buffers.count());
  return sent;
}

}  // namespace lend::transport
