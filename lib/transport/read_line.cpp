// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <base/poison.hpp>
#include <lend/verbs/work_request.hpp>
#include <transport/read_line.hpp>
#include <transport/terms.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lend::transport {

using flow::cell_bytes;
using flow::cells_of;
using flow::RingPlace;

namespace {

constexpr std::uint32_t goes_on_at_0 = UINT32_MAX;

/// Shape: none is on loan.
std::span<std::byte> whole_of(MemoryRegion& region) noexcept {
  auto const bytes = region.mutable_bytes();
  return bytes ? bytes.value() : std::span<std::byte>{};
}

constexpr std::size_t bytes_at(std::uint32_t cell) noexcept {
  return std::size_t{cell} * cell_bytes;
}

Error broke_the_rules(char const* what) noexcept {
  return {Errc::incompatible_peer, what};
}

}  // namespace

ReadLine::ReadLine(Channel channel, std::vector<PendingWork> handles, Rings rings, Buffers notes,
                   Buffers words)
    : ChannelLine{std::move(channel), std::move(handles), 0},
      rings_{std::move(rings)},
      notes_{std::move(notes)},
      words_{std::move(words)},
      own_{whole_of(rings_.own)},
      landing_{whole_of(rings_.landing)},
      sent_{rings_.window_out},
      coming_{static_cast<std::uint32_t>(landing_.size() / cell_bytes)},
      ends_(rings_.window_in),
      lent_(base::can_poison ? rings_.window_in : 0) {
  base::poison(landing_);
}

ReadLine::~ReadLine() {
  close();
  base::unpoison(landing_);
}

// ---- receiving ----

Result<std::optional<Line::Arrival>> ReadLine::next() noexcept {
  auto arrival = take_arrival();
  if (!arrival) {
    take_news();
    arrival = take_arrival();
  }
  if (!arrival && wrong_) return *wrong_;
  return arrival;
}

void ReadLine::take_news() noexcept {
  // After a loss, what was read before is still taken.
  for (auto step : {&ReadLine::take_notes, &ReadLine::post_reads, &ReadLine::take_reads,
                    &ReadLine::post_due_note}) {
    auto const done = (this->*step)();
    if (!done && !wrong_) wrong_ = done.error();
  }
}

Result<void> ReadLine::take_notes() noexcept {
  // The credits judge each. A peer that sends more of them than the rules allow waits meanwhile.
  while (!credits_.is_full()) {
    LEND_TRY(came, take_receive());
    if (!came) return success();
    auto const slot = came->slot;
    if (came->bytes != word_bytes + note_bytes)
      return broke_the_rules("the peer sent a note of another length than notes have");
    LEND_TRYV(take_note(notes_.word(slot)));
    post_receive(slot, notes_.whole(slot));
  }
  return success();
}

Result<void> ReadLine::take_note(std::byte const* note) noexcept {
  auto const word = decode(load(note));
  auto const tail = load(note + 4), read = load(note + 8);
  if (!word || word->length != 0 || load(note + 12) != 0)
    return broke_the_rules("the peer sent a note that means nothing: it is not a ReadRing");
  if (has_finish_ && (tail != coming_.announced() || word->kind == WordKind::finish))
    return broke_the_rules("the peer announced data after it had finished");
  bool const announces = tail != coming_.announced(), tells = read != sent_.read();
  if (!coming_.take_tail(tail))
    return broke_the_rules("the peer announced more than its ring has room for");
  if (!sent_.take_read(read, word->freed))
    return broke_the_rules("the peer says that it read or freed more than was announced to it");
  if (word->kind == WordKind::data && !announces && !tells)
    return broke_the_rules("the peer sent a note that says nothing");
  // Whether the word frees anything, the credits judge.
  bool const frees = std::exchange(peers_freed_, word->freed) != word->freed;
  if (frees || (word->kind == WordKind::credit && !tells)) credits_.push() = word->freed;
  has_finish_ |= word->kind == WordKind::finish;
  has_news_ |= tells || !credits_.is_empty() || has_finish_;
  return success();
}

Result<void> ReadLine::post_reads() noexcept {
  auto const ring = static_cast<std::uint32_t>(landing_.size() / cell_bytes);
  while (coming_.unrequested() > 0 && !reads_.is_full() && !wrong_) {
    auto const cells =
        std::min({coming_.unrequested(), ring - request_at_, read_bytes_max / flow::cell_bytes});
    auto posted =
        scope().try_post_read(Read{rings_.landing.scatter(bytes_at(request_at_), bytes_at(cells)),
                                   rings_.peers.slice(bytes_at(request_at_), bytes_at(cells))});
    if (!posted) return loss(posted.error());
    auto& reading = reads_.push();
    reading.handle.emplace(std::move(posted).value());
    reading.cells = cells;
    coming_.request(cells);
    request_at_ = request_at_ + cells == ring ? 0 : request_at_ + cells;
  }
  return success();
}

Result<void> ReadLine::take_reads() noexcept {
  while (!reads_.is_empty()) {
    auto& oldest = reads_.front();
    auto const done = oldest.handle->poll();
    if (!done) return loss(done.error());
    if (!done.value()) return success();
    oldest.handle.reset();
    coming_.land(oldest.cells);
    reads_.pop();
    has_news_ = true;
    LEND_TRYV(post_reads());
  }
  return success();
}

std::optional<Line::Arrival> ReadLine::take_arrival() noexcept {
  auto const of_word = [this](WordKind kind) {
    return Arrival{.bits = encode({kind, told_freed_, 0}), .slot = rings_.window_in};  // no slot
  };
  if (!credits_.is_empty()) {
    told_freed_ = credits_.front();
    credits_.pop();
    return of_word(WordKind::credit);
  }
  if (coming_.untaken() > 0) {
    auto const message = take_message();
    if (message) return message.value();
    wrong_ = message.error();  // nothing behind it means anything: none is taken
    return std::nullopt;
  }
  if (has_finish_ && coming_.has_read_all() && !wrong_ && !std::exchange(has_given_finish_, true))
    return of_word(WordKind::finish);
  return std::nullopt;
}

Result<std::optional<Line::Arrival>> ReadLine::take_message() noexcept {
  auto const ring = static_cast<std::uint32_t>(landing_.size() / cell_bytes);
  for (;;) {
    auto const header = landing_.subspan(bytes_at(take_at_), message_header_bytes);
    base::unpoison(header);
    auto const length = load(header.data()), position = load(header.data() + 4);
    base::poison(header);
    auto const there = coming_.untaken();
    if (position != coming_.taken())
      return broke_the_rules("the peer's ring has no message where its note says that one begins");
    auto const cells = length == goes_on_at_0      ? ring - take_at_
                       : length <= word_length_max ? cells_of(length + message_header_bytes)
                                                   : ring + 1;
    if (cells > there && !coming_.has_read_all()) return std::optional<Arrival>{};
    if (length == goes_on_at_0 && take_at_ != 0 && cells <= there) {
      left_at_ = take_at_;
      coming_.take(ring - take_at_);
      take_at_ = 0;
      if (coming_.untaken() == 0) return std::optional<Arrival>{};
      continue;
    }
    bool const is_in_place =
        RingPlace::behind(left_at_.value_or(take_at_), cells, ring).at == take_at_;
    if (length == goes_on_at_0 || cells > there || !is_in_place)
      return broke_the_rules("the peer's ring has a message where none can be");
    left_at_.reset();
    coming_.take(cells);
    take_at_ = take_at_ + cells == ring ? 0 : take_at_ + cells;
    auto const slot = std::exchange(next_slot_, base::next_in_turn(next_slot_, rings_.window_in));
    ends_[slot] = coming_.taken();
    return std::optional{Arrival{
        .bits = encode({WordKind::data, told_freed_, length}), .slot = slot, .length = length}};
  }
}

Line::Message ReadLine::message(Arrival const& arrival, std::uint32_t cell) noexcept {
  auto const at = bytes_at(cell) + message_header_bytes;
  if constexpr (base::can_poison) {
    auto const whole = (arrival.length + base::poison_granule - 1) / base::poison_granule;
    lent_[arrival.slot] = landing_.subspan(at, whole * base::poison_granule);
    base::unpoison(lent_[arrival.slot]);
  }
  return {.slot = arrival.slot,
          .bytes = landing_.subspan(at, arrival.length),
          .where = rings_.landing.gather(at, arrival.length)};
}

void ReadLine::post_again(std::uint32_t slot) noexcept {
  // Receives are posted again as their notes are read.
  if constexpr (base::can_poison)
    if (slot < rings_.window_in) base::poison(lent_[slot]);
}

// ---- sending ----

std::optional<std::span<std::byte>> ReadLine::room(std::size_t /*least*/, std::size_t most,
                                                   std::uint32_t cell) noexcept {
  if (is_closed()) return std::nullopt;
  draft_at_ = cell;
  return own_.subspan(bytes_at(cell) + message_header_bytes, most);
}

void ReadLine::write_header(std::uint32_t cell, std::uint32_t length) noexcept {
  auto* const header = own_.data() + bytes_at(cell);
  store(header, length);
  store(header + 4, sent_cells_);
}

void ReadLine::place_message(std::uint32_t cell, std::uint32_t length) noexcept {
  auto const cells = cells_of(length + message_header_bytes);
  auto left_out = 0u;
  if (cell != send_at_ && send_at_ < rings_.own_cells) {
    left_out = rings_.own_cells - send_at_;
    write_header(send_at_, goes_on_at_0);
  }
  sent_cells_ += left_out;
  // A message shorter than its draft's least may lie before the end, where that did not fit.
  if (cell != draft_at_)
    std::memmove(own_.data() + bytes_at(cell) + message_header_bytes,
                 own_.data() + bytes_at(draft_at_) + message_header_bytes, length);
  write_header(cell, length);
  sent_cells_ += cells;
  send_at_ = cell + cells;
  sent_.take(left_out + cells);
}

Result<bool> ReadLine::send(Word const& word, std::uint32_t cell) noexcept {
  if (is_closed()) return ended();
  if (word.kind != WordKind::data) {
    auto posted = post_note(word.kind, word.freed);
    is_word_due_ = posted && !posted.value();
    return posted;
  }
  tell_freed(word.freed);
  place_message(cell, word.length);
  if (!sent_.may_announce()) take_news();  // the peer may have read meanwhile
  auto const announced = post_due_note();
  if (announced) return true;
  // The message is placed, and none can be placed behind it: this ends it.
  if (!wrong_) wrong_ = announced.error();
  return announced.error();
}

void ReadLine::tell_freed(std::uint32_t freed) noexcept {
  for (; freed_ != freed; freed_ = (freed_ + 1) % flow::freed_modulus) {
    coming_.free(ends_[next_freed_]);
    next_freed_ = base::next_in_turn(next_freed_, rings_.window_in);
  }
}

Result<bool> ReadLine::post_note(WordKind kind, std::uint32_t freed) noexcept {
  if (!has_room_for(WordKind::finish)) return false;
  auto* const note = words_.word(next_word_);
  bool const announces = kind == WordKind::finish || sent_.may_announce();
  store(note, encode({kind, freed, 0}));
  store(note + 4, announces ? sent_.announce() : sent_.newest());
  store(note + 8, coming_.read());  // behind it zeros of fresh memory
  auto posted = scope().try_post_send(words_.first(next_word_, note_bytes));
  auto sent = note_word(std::move(posted), kind == WordKind::finish);
  if (!sent) return sent;
  tell_freed(freed);
  coming_.note_told();
  next_word_ = base::next_in_turn(next_word_, words_.count());
  return sent;
}

Result<void> ReadLine::post_due_note() noexcept {
  if (is_closed() || (!sent_.may_announce() && !coming_.has_to_tell())) return success();
  LEND_TRY(is_posted, post_note(WordKind::data, freed_));
  static_cast<void>(is_posted);  // else the next news find room
  return success();
}

// ---- in an event loop ----

Result<bool> ReadLine::poll() noexcept {
  if (is_closed()) return false;
  auto const in_flight = sends_in_flight();
  LEND_TRY(has_come, ChannelLine::poll());
  if (!has_come) return has_just_gone_wrong();
  take_news();
  // A note that only announces is no news: what it announces is.
  bool const is_acknowledged = sends_in_flight() < in_flight;
  return std::exchange(has_news_, false) || is_acknowledged || std::exchange(is_word_due_, false) ||
         has_just_gone_wrong();
}

}  // namespace lend::transport
