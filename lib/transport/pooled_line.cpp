// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the set.
#include <channel/work/unheld.hpp>
#include <transport/pooled_line.hpp>

#include <utility>

namespace lend::transport {

PooledLine::PooledLine(Channel channel, std::shared_ptr<PoolShare> share, std::uint32_t messages)
    : ChannelLine{std::move(channel), {}, messages, share->buffers().words_each()},
      share_{std::move(share)},
      buffers_{share_->buffers()},
      sending_(messages) {}

// ---- receiving ----

Result<bool> PooledLine::poll() noexcept {
  auto has_news = ChannelLine::poll();
  if (!is_closed()) give_back_sent();
  return has_news;
}

Result<std::optional<Line::Arrival>> PooledLine::next() noexcept {
  if (is_closed()) return ended();
  if (!share_->has_any()) {
    auto const looked = look();
    if (!share_->has_any()) {
      LEND_TRYV(looked);
      if (share_->is_overrun())
        return Error{Errc::incompatible_peer, "the peer sent more than this end has room for"};
      return std::optional<Arrival>{};
    }
  }
  auto const came = *share_->next();
  if (came.bytes < word_bytes) return std::optional{Arrival{.bits = no_word, .slot = came.piece}};
  return std::optional{Arrival{.bits = load(buffers_.receives().word(came.piece)),
                               .slot = came.piece,
                               .length = static_cast<std::uint32_t>(came.bytes - word_bytes)}};
}

Line::Message PooledLine::message(Arrival const& arrival, std::uint32_t /*cell*/) noexcept {
  return {.slot = arrival.slot,
          .bytes = {buffers_.receives().message(arrival.slot), arrival.length}};
}

// ---- sending ----

std::optional<std::span<std::byte>> PooledLine::room(std::size_t /*least*/, std::size_t most,
                                                     std::uint32_t /*cell*/) noexcept {
  if (is_closed() || !has_room_for(WordKind::data)) return std::nullopt;
  if (!draft_) {
    give_back_sent();
    draft_ = buffers_.take_draft(*this);
    if (!draft_) return std::nullopt;
  }
  return std::span{buffers_.drafts().message(*draft_), most};
}

void PooledLine::leave_room() noexcept {
  if (draft_) buffers_.give_back_draft(*std::exchange(draft_, std::nullopt));
}

void PooledLine::give_back_sent() noexcept {
  count_done();
  for (; given_back_ != messages_done(); ++given_back_) {
    buffers_.give_back_draft(sending_.front());
    sending_.pop();
  }
}

Result<bool> PooledLine::send(Word const& word, std::uint32_t /*cell*/) noexcept {
  if (is_closed()) return ended();
  if (!has_room_for(word.kind)) return false;
  return has_message(word.kind) ? send_message(word) : send_word(word);
}

Result<bool> PooledLine::send_message(Word const& word) noexcept {
  auto const& drafts = buffers_.drafts();
  store(drafts.word(*draft_), encode(word));  // behind it the zeros of fresh memory
  auto sent = note_message(channel::post_unheld(
      form_, state(), {drafts.first(*draft_, word.length)}, std::nullopt, messages()));
  if (sent) sending_.push() = *std::exchange(draft_, std::nullopt);
  return sent;
}

Result<bool> PooledLine::send_word(Word const& word) noexcept {
  auto const& words = buffers_.words();
  auto const place = share_->word(next_word_);
  store(words.word(place), encode(word));
  auto sent = note_word(scope().try_post_send(words.first(place, 0)), is_awaited(word));
  if (sent) next_word_ = base::next_in_turn(next_word_, buffers_.words_each());
  return sent;
}

// ---- the end ----

void PooledLine::close() noexcept {
  if (is_closed()) return;
  leave_room();
  give_back_sent();
  bool const is_kept = !sending_.is_empty() && inside().end_connection(ended()).has_value();
  ChannelLine::close();
  for (; !sending_.is_empty(); sending_.pop()) {
    // A device that keeps the queue pair may still read them.
    if (is_kept)
      buffers_.lose_draft(sending_.front());
    else
      buffers_.give_back_draft(sending_.front());
  }
}

}  // namespace lend::transport
