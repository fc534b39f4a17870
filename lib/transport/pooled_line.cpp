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
  if (is_closed()) return has_news;
  give_back_sent();
  if (!waits_for_draft_) return has_news;
  buffers_.reclaim_drafts();
  if (buffers_.free_drafts() == 0) return has_news;
  waits_for_draft_ = false;
  return true;
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
  auto& draft = share_->draft;
  if (!draft) {
    give_back_sent();
    draft = buffers_.take_draft();
    waits_for_draft_ = !draft;
    bool const is_counted = std::exchange(lacks_draft_, waits_for_draft_);
    if (waits_for_draft_) {
      if (!is_counted) buffers_.lack(observe::PoolPart::drafts);
      buffers_.wait(*this);
      return std::nullopt;
    }
  }
  return std::span{buffers_.drafts().message(*draft), most};
}

void PooledLine::leave_room() noexcept {
  if (auto const draft = std::exchange(share_->draft, std::nullopt))
    buffers_.give_back_draft(*draft);
}

void PooledLine::give_back_sent() noexcept {
  if (sending_.is_empty()) return;
  count_done();
  for (; given_back_ != messages_done(); ++given_back_) give_back_first();
}

void PooledLine::give_back_first() noexcept {
  auto const draft = sending_.front();
  sending_.pop();
  if (sending_.is_empty()) buffers_.note_sent_all(*this);
  buffers_.give_back_draft(draft);
}

std::uint32_t PooledLine::grant_to_stopped() noexcept {
  auto& grants = share_->grants();
  auto const more = grants.take_more(buffers_.shared());
  buffers_.count_receives();
  if (more == 0 && grants.granted() < grants.wanted()) {
    if (std::exchange(lacked_at_, grants.stopped_at()) != grants.stopped_at())
      buffers_.lack(observe::PoolPart::receives);
    buffers_.wait(*this);
  }
  return more;
}

Result<bool> PooledLine::send(Word const& word, std::uint32_t /*cell*/) noexcept {
  if (is_closed()) return ended();
  if (!has_room_for(word.kind)) return false;
  return has_message(word.kind) ? send_message(word) : send_word(word);
}

Result<bool> PooledLine::send_message(Word const& word) noexcept {
  auto const& drafts = buffers_.drafts();
  auto const draft = *share_->draft;
  store(drafts.word(draft), encode(word));  // behind it the zeros of fresh memory
  auto sent = note_message(
      channel::post_unheld(form_, state(), {drafts.first(draft, word.length)}, messages()));
  if (!sent) return sent;
  share_->draft.reset();
  if (sending_.is_empty()) buffers_.note_sending(*this);
  sending_.push() = draft;
  return sent;
}

Result<bool> PooledLine::send_word(Word const& word) noexcept {
  auto const& words = buffers_.words();
  auto const at = share_->word(next_word_);
  store(words.word(at), encode(word));
  auto sent = note_word(scope().try_post_send(words.first(at, 0)), is_awaited(word));
  if (sent) next_word_ = base::next_in_turn(next_word_, buffers_.words_each());
  return sent;
}

// ---- the end ----

void PooledLine::close() noexcept {
  if (is_closed()) return;
  buffers_.wait_no_more(*this);
  give_back_sent();
  // A child of fork() ends nothing of its parent's.
  bool const may_be_read = !sending_.is_empty() && (buffers_.is_inherited() ||
                                                    inside().end_connection(ended()).has_value());
  ChannelLine::close();
  share_->drop_unread();
  if (!sending_.is_empty()) buffers_.note_sent_all(*this);
  for (; !sending_.is_empty(); sending_.pop())
    if (!may_be_read) buffers_.give_back_draft(sending_.front());
}

}  // namespace lend::transport
