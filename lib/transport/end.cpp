// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <base/copy_bytes.hpp>
#include <lend/transport/lending.hpp>
#include <transport/end.hpp>
#include <verbs/memory/region_state.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace lend::transport {

namespace {

[[gnu::cold]] Error too_long(std::size_t bytes, std::uint64_t most, char const* limit) noexcept {
  try {
    return {Errc::invalid_argument,
            "a message of " + std::to_string(bytes) + " bytes: this connection takes at most " +
                std::to_string(most) + ", limits()." + limit + "; send several"};
  } catch (std::bad_alloc const&) {
    return Errc::invalid_argument;
  }
}

[[gnu::cold]] Error finished_before() noexcept {
  return {Errc::finished, "finish_sending() was called: this end only receives from then on"};
}

/// Whether they may be lent over `line`.
Result<void> check_lending(GatherElement const& bytes, TransportLimits const& limits,
                           Line& line) noexcept {
  if (limits.send_lent_bytes_max == 0)
    return Error{Errc::unsupported,
                 "the peer takes no lent messages: its TransportOptions::lent_bytes_max is 0"};
  if (bytes.region == nullptr || !bytes.region->contains(bytes.range))
    return verbs::element_error(bytes.region, bytes.range, 0, 1);
  if (bytes.range.length == 0)
    return Error{Errc::invalid_argument, "no bytes to lend: send an empty message"};
  if (bytes.range.length > limits.send_lent_bytes_max)
    return too_long(bytes.range.length, limits.send_lent_bytes_max, "send_lent_bytes_max");
  return line.lent_reads()->check(*bytes.region);
}

}  // namespace

End::End(std::unique_ptr<Line> line, TransportLimits const& limits, Sizes const& sizes,
         verbs::FirstSender first)
    : limits_{limits},
      out_{sizes.out},
      in_{sizes.in},
      held_{nullptr},
      line_{std::move(line)},
      is_pooled_{line_->is_pooled()},
      has_rings_{sizes.out.cells > 0},
      greetings_{first},
      header_bytes_{sizes.header_bytes},
      fetches_{line_->lent_reads(), limits.receive_lent_bytes_max},
      arrived_(sizes.in.window),
      own_tally_{is_pooled_ ? nullptr : observe::Tally::if_asked()},
      tally_{is_pooled_ ? line_->tally() : own_tally_.get()} {
  // Of a pool's messages no ledger has a loan beside the pool's.
  held_ = new Held{*this, is_pooled_ ? 0 : sizes.in.window + word_receives, line_->keeps()};
  send_words();
}

End::~End() {
  line_->close();
  line_->stop_granting();
  held_->end();
  lent_.end_all(
      {Errc::channel_broken, "the transport ended before its peer had read this message"});
}

// ---- sending ----

[[gnu::always_inline]] inline std::optional<std::span<std::byte>> End::room_for_draft(
    std::size_t at_least, std::size_t at_most) noexcept {
  auto const most = std::min<std::size_t>(at_most, limits_.send_bytes_max);
  if (at_least > most || has_finished_ || broken_ || held_->has_draft() || greetings_.is_awaited())
      [[unlikely]]
    return std::nullopt;
  auto const least_cells = cells_of(at_least);
  auto const most_cells = most == at_least ? least_cells : cells_of(most);
  auto const place = out_.room(least_cells, most_cells);
  if (!place) [[unlikely]]
    return std::nullopt;
  auto const bytes = place->cells == most_cells
                         ? most
                         : std::size_t{place->cells} * flow::cell_bytes - header_bytes_;
  return line_->room(at_least, bytes, place->at);
}

Result<Draft> End::try_draft(std::size_t at_least, std::size_t at_most) noexcept {
  if (auto const room = room_for_draft(at_least, at_most)) [[likely]]
    return held_->draft(*room);
  LEND_TRY(room, room_after_arrivals(at_least, at_most));
  return room ? held_->draft(*room) : Draft{};
}

[[gnu::noinline]] Result<std::optional<std::span<std::byte>>> End::room_after_arrivals(
    std::size_t at_least, std::size_t at_most) noexcept {
  if (at_least > limits_.send_bytes_max)
    return too_long(at_least, limits_.send_bytes_max, "send_bytes_max");
  if (at_least > at_most)
    return Error{Errc::invalid_argument, "a draft of at least more bytes than at most"};
  if (has_finished_) return finished_before();
  take_arrivals(false);
  if (broken_) return *broken_;
  return room_for_draft(at_least, at_most);
}

Result<std::optional<std::size_t>> End::try_send_some(std::size_t at_least,
                                                      std::span<std::byte const> bytes) noexcept {
  auto room = room_for_draft(at_least, bytes.size());
  if (!room) [[unlikely]] {
    LEND_TRY(found, room_after_arrivals(at_least, bytes.size()));
    if (!found) return std::optional<std::size_t>{};
    room = found;
  }
  auto const sent = bytes.first(std::min(room->size(), bytes.size()));
  auto const length = static_cast<std::uint32_t>(sent.size());
  auto const cells = cells_of(length);
  if (line_->send_at_once({WordKind::data, in_.freed(), length}, out_.place(cells), sent)) {
    note_sent(cells, length);
    return std::optional{sent.size()};
  }
  base::copy_bytes(*room, sent);
  LEND_TRYV(send_message(WordKind::data, length, length));
  return std::optional{sent.size()};
}

void End::drop_draft() noexcept {
  line_->leave_room();
}

Result<void> End::send_draft(std::size_t used) noexcept {
  if (has_finished_ || broken_) [[unlikely]] {
    line_->leave_room();
    return has_finished_ ? finished_before() : *broken_;
  }
  // The draft took no credit, and nothing else sends data: there is room.
  return send_message(WordKind::data, static_cast<std::uint32_t>(used), used);
}

[[gnu::always_inline]] inline Result<void> End::send_message(WordKind kind, std::uint32_t bytes,
                                                             std::size_t counted) noexcept {
  auto const cells = cells_of(bytes);
  auto const sent = line_->send({kind, in_.freed(), bytes}, out_.place(cells));
  if (!sent || !sent.value()) [[unlikely]]
    return not_sent(sent);
  note_sent(cells, counted);
  return success();
}

[[gnu::always_inline]] inline void End::note_sent(std::uint32_t cells,
                                                  std::size_t counted) noexcept {
  out_.take(cells);
  in_.note_told();
  if (tally_) [[unlikely]]
    tally_->send(counted);
}

[[gnu::noinline]] Result<void> End::not_sent(Result<bool> const& sent) noexcept {
  line_->leave_room();
  if (sent) return Errc::queue_full;
  // What came before the loss is still to be received, and the cause to be found.
  take_arrivals(false);
  return broken_ ? *broken_ : sent.error();
}

Result<void> End::finish_sending() noexcept {
  if (broken_) return *broken_;
  if (!std::exchange(has_finished_, true)) send_words();
  return success();
}

void End::send_words() noexcept {
  if (broken_ || greetings_.is_awaited()) return;
  if (greetings_.is_due()) {
    auto const sent = line_->send({WordKind::credit, in_.freed(), 0}, 0);
    if (sent.has_value() && sent.value()) greetings_.note_sent();
  }
  if (has_finished_ && !has_sent_finish_) {
    auto const sent = line_->send({WordKind::finish, in_.freed(), 0}, 0);
    has_sent_finish_ = sent.has_value() && sent.value();
    if (has_sent_finish_) in_.note_told();
  }
  // A peer that has finished needs no credits, but its bytes.
  auto const over = fetches_.untold();
  if (over == 0 && (has_read_finish_ || !in_.has_to_tell())) return;
  auto const sent = line_->send({WordKind::credit, in_.freed(), over}, 0);
  if (!sent.has_value() || !sent.value()) return;
  in_.note_told_alone();
  line_->note_granting_word();
  fetches_.note_told();
}

// ---- lent messages ----

Result<LentMessage> End::try_send_lent(GatherElement const& bytes, SourceLine where) noexcept try {
  if (has_finished_) return finished_before();
  auto const has_room = [this] {
    return limits_.send_lent_bytes_max > 0 && lent_.free_place() &&
           room_for_draft(lent_note_bytes, lent_note_bytes);
  };
  if (broken_ || !has_room()) take_arrivals(false);
  if (broken_) return *broken_;
  LEND_TRYV(check_lending(bytes, limits_, *line_));
  if (!has_room()) return LentMessage{};
  LEND_TRY(lent, Lent::make(bytes, where));
  auto const place = *lent_.free_place();
  store_note(*room_for_draft(lent_note_bytes, lent_note_bytes), lent->remote, place);
  LEND_TRYV(send_message(WordKind::lent, lent_note_bytes, bytes.range.length));
  lent_.keep(place, lent);
  return LentMessage{std::move(lent)};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Result<bool> End::try_fetch(Received const& message, ScatterElement const& target,
                            SourceLine where) noexcept {
  auto const slot = held_->slot_of(message);
  if (!slot)
    return Error{Errc::invalid_argument, "no message of this transport can be read from that"};
  if (!message.is_lent()) return copy_message(message, target);
  LEND_TRYV(check_target(message, target));
  if (broken_) return *broken_;
  auto const place = fetches_.find(*slot);
  if (!place) return Error{Errc::invalid_argument, "this lent message was read before"};
  auto is_there = fetches_.read(*place, target, where);
  if (!is_there) {
    // What broke the connection is to be found.
    take_arrivals(false);
    return broken_ ? *broken_ : is_there.error();
  }
  if (is_there.value()) send_words();
  return is_there;
}

// ---- receiving ----

Result<Received> End::try_receive() noexcept {
  if (arrived_.is_empty()) take_arrivals(true);
  return arrived_.is_empty() ? without_message() : lend_next();
}

[[gnu::always_inline]] inline Result<Received> End::lend_next() noexcept {
  Line::Message const& next = arrived_.front();
  if (fetches_.is_any()) [[unlikely]]
    if (auto const place = fetches_.find(next.slot)) return hold_lent(*place);
  auto received = held_->lend(next.slot, next.bytes, next.where);
  if (received) [[likely]] {
    if (tally_) [[unlikely]]
      tally_->receive(next.bytes.size());
    arrived_.pop();
  }
  return received;
}

[[gnu::noinline]] Received End::hold_lent(std::uint32_t place) noexcept {
  auto const slot = arrived_.front().slot;
  auto const bytes = fetches_.length(place);
  arrived_.pop();
  if (tally_) tally_->receive(bytes);
  return held_->hold_lent(slot, bytes);
}

[[gnu::noinline]] Result<Received> End::without_message() const noexcept {
  if (has_read_finish_) return Received::end();
  if (broken_) return *broken_;
  return Received{};
}

void End::take_back(std::uint32_t slot) noexcept {
  line_->post_again(slot);
  if (is_pooled_) [[unlikely]]
    in_.grant(line_->grant_at_release());
  if (broken_) return;
  if (!is_pooled_) [[likely]]
    in_.release(slot);
  if (fetches_.is_any()) [[unlikely]]
    fetches_.drop(slot);
  if (in_.has_to_tell() || fetches_.untold() != 0) send_words();
}

template <bool is_lent>
[[gnu::always_inline]] inline char const* End::take_message(Word const& word,
                                                            Line::Arrival const& arrival) noexcept {
  if (word.length != arrival.length)
    return "the peer sent a message of another length than its word says";
  if (has_read_finish_) return "the peer sent data after it had finished";
  if (word.length > limits_.receive_bytes_max)
    return "the peer sent a message longer than the largest";
  auto const cell = in_.take(cells_of(word.length));
  if (!cell) return "the peer sent more than this end has room for";
  if constexpr (is_lent)
    if (char const* const wrong = fetches_.take(line_->message(arrival, *cell))) return wrong;
  arrived_.push() = line_->message(arrival, *cell);
  if (is_pooled_) [[unlikely]]
    in_.grant(line_->grant_at_arrival(in_.allowed(), in_.left_as_told()));
  return nullptr;
}

[[gnu::always_inline]] inline char const* End::take_arrival(Line::Arrival const& arrival) noexcept {
  auto const word = decode(arrival.bits);
  if (!word) return "the peer sent a word that means nothing: it is not a transport of lend's";
  greetings_.note_arrival();
  auto const unfreed = out_.unfreed();
  if (!out_.take_freed(word->freed)) return "the peer says that it freed more than was sent";
  if (word->kind == WordKind::data) [[likely]]
    return take_message(*word, arrival);
  if (word->kind == WordKind::lent) return take_lent(*word, arrival);
  return take_notice(*word, arrival, out_.unfreed() != unfreed);
}

void End::take_arrivals(bool up_to_one) noexcept {
  while (!broken_) {
    auto const next = line_->next();
    if (!next) {
      // Once all has come and arrived a peer may go.
      bool const is_over = has_sent_finish_ && has_read_finish_;
      if (!is_over || sends_in_flight() > 0) break_by(next.error());
      return;
    }
    if (!next.value()) return send_words();
    has_changed_ = true;
    if (char const* const wrong = take_arrival(*next.value()))
      return break_by({Errc::incompatible_peer, wrong});
    if (up_to_one && !arrived_.is_empty()) return;
  }
}

[[gnu::noinline]] char const* End::take_lent(Word const& word,
                                             Line::Arrival const& arrival) noexcept {
  return take_message<true>(word, arrival);
}

[[gnu::noinline]] char const* End::take_notice(Word const& word, Line::Arrival const& arrival,
                                               bool frees) noexcept {
  if (arrival.length != 0) return "the peer sent a message of another length than its word says";
  // So that a peer sends no more words than it frees messages, or ends lent ones.
  if (!is_awaited(word) && !frees && !greetings_.take())
    return "the peer sent a credit that frees nothing";
  if (word.length != 0 && !lent_.end(word.length))
    return "the peer says that it read what was not lent";
  if (word.kind == WordKind::finish && std::exchange(has_read_finish_, true))
    return "the peer finished twice";
  line_->post_again(arrival.slot);
  if (has_read_finish_) line_->stop_granting();
  return nullptr;
}

// ---- both ----

void End::break_by(Error cause) noexcept {
  broken_ = std::move(cause);
  has_changed_ = true;
  line_->close();
  line_->stop_granting();
  lent_.end_all(*broken_);
}

void End::disconnect() noexcept {
  if (!broken_)
    break_by({Errc::channel_broken, "this end was disconnected by disconnect(): make another"});
}

Result<bool> End::poll() noexcept {
  if (!broken_) {
    auto const news = line_->poll();
    // A line that cannot be polled says so as next().
    if (!news || news.value()) {
      has_changed_ = true;
      take_arrivals(false);
      if (!broken_) fetches_.end_dropped();
      if (!broken_ && is_pooled_ && in_.left() == 0) in_.grant(line_->grant_to_stopped());
      send_words();
    } else if (greetings_.is_due()) {
      send_words();
    }
  }
  return std::exchange(has_changed_, false);
}

Result<bool> End::arm() noexcept {
  LEND_TRYV(line_->check_alone());
  if (has_changed_) return false;
  if (broken_) return true;
  return line_->arm();
}

}  // namespace lend::transport
