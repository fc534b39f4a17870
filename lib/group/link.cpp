// SPDX-License-Identifier: MIT OR Apache-2.0
// A receive is posted again after its message was released, which may be one message later; sends
// use their slots in turn. The thread of the group.
#include <base/copy_bytes.hpp>
#include <channel/channel_state.hpp>
#include <channel/ending.hpp>
#include <channel/handle_access.hpp>
#include <group/link.hpp>
#include <lend/channel/unsafe.hpp>
#include <verbs/adoption.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lend::group {

Result<std::unique_ptr<Link>> Link::prepare(ProtectionDomain const& domain,
                                            PreparedChannel prepared, LinkOptions const& options) {
  auto const slots = options.receives() * 2;
  LEND_TRY(memory,
           domain.allocate(slots * options.slot_bytes() + sizeof(Record) + WrittenNote::bytes));
  LEND_TRY(bytes, memory.mutable_bytes());
  std::optional<Mailbox> mailbox;
  if (options.has_mailbox) {
    LEND_TRY(made, Mailbox::create(domain, options.window));
    mailbox = std::move(made);
  }
  auto link = std::make_unique<Link>(std::move(prepared), std::move(memory), bytes.data(),
                                     std::move(mailbox), options);
  LEND_TRYV(link->post_receives());
  return link;
}

Link::Link(PreparedChannel prepared, MemoryRegion memory, std::byte* place,
           std::optional<Mailbox> mailbox, LinkOptions const& options)
    : options_{options},
      memory_{std::move(memory)},
      place_{place},
      mailbox_{std::move(mailbox)},
      prepared_{std::move(prepared)},
      receives_(options.receives()),
      posted_(options.receives()),
      sends_(options.receives()) {
  arrived_.reserve(options.receives());
}

Link::~Link() = default;

Result<void> Link::post_receives() {
  for (std::uint32_t slot = 0; slot < options_.receives(); ++slot) {
    LEND_TRY(handle,
             prepared_->post_receive(memory_.scatter(receive_at(slot), options_.slot_bytes())));
    receives_[slot].emplace(std::move(handle));
    posted_[outstanding_++] = slot;
  }
  return success();
}

Result<RemoteRegion> Link::mailbox() const noexcept {
  if (!mailbox_) return RemoteRegion{};
  return mailbox_->remote();
}

void Link::note_memory_of(RankCard const& peer) noexcept {
  record_ = peer.record;
  their_mailbox_ = peer.mailbox;
  auto const slots = Mailbox::slots_in(their_mailbox_.size());
  // What goes inline is copied by the post, so that nothing need be known of its end.
  bool const goes_inline = channel_->inline_bytes() >= WrittenNote::bytes;
  their_slots_ = goes_inline && slots >= options_.window ? slots : 0;
}

Result<void> Link::connect(RankCard const& peer) {
  LEND_TRY(channel, std::move(*prepared_).handshake(peer.endpoint));
  prepared_.reset();
  channel_.emplace(std::move(channel));
  note_memory_of(peer);
  return success();
}

Result<void> Link::adopt(QueuePair connected, RankCard const& peer) {
  auto const first = verbs::QueuePairAccess::handle_of(connected).first_sender;
  LEND_TRY(channel, std::move(*prepared_).adopt(std::move(connected)));
  prepared_.reset();
  channel_.emplace(std::move(channel));
  note_memory_of(peer);
  greetings_ = channel::Greetings{first};
  has_met_ = first == verbs::FirstSender::either;
  return success();
}

Result<void> Link::greet() noexcept {
  if (!channel_ || has_met_) return success();
  LEND_TRYV(take_arrivals());
  if (failure() != nullptr) return *failure();
  if (oldest_ != 0) {  // something has come
    if (greetings_.is_awaited()) {
      LEND_TRYV(post({.kind = Note::Kind::credit}, {}));
    }
    greetings_.note_arrival();
    has_met_ = true;
  } else if (greetings_.is_due()) {
    LEND_TRYV(post({.kind = Note::Kind::credit}, {}));
    greetings_.note_sent();
  }
  return success();
}

Result<void> Link::take_arrivals() noexcept {
  if (!channel_) return success();  // the peer may have greeted, but this rank gave up before
  // No more than can have come by now: a peer that sends on and on does not keep this rank here.
  for (std::size_t taken = 0, most = outstanding_; taken < most; ++taken) {
    std::uint32_t const slot = posted_[oldest_];
    // The poll for the first one has asked the queue, or had no need to.
    if (taken != 0 && !channel::HandleAccess::is_worth_a_poll(*receives_[slot])) break;
    LEND_TRY(done, receives_[slot]->poll());
    if (!done) break;
    oldest_ = (oldest_ + 1) % posted_.size();
    --outstanding_;
    Note note;
    std::memcpy(&note, place_ + receive_at(slot), sizeof note);
    if (done->bytes < sizeof note || done->bytes != sizeof note + note.length)
      return Error{Errc::incompatible_peer, "a message between ranks is damaged"};
    LEND_TRYV(hear_freed(note.freed));
    peer_has_left_ |= note.kind == Note::Kind::left;
    if (note.kind == Note::Kind::broken) fault_ = note.fault();
    if (note.kind == Note::Kind::part || note.kind == Note::Kind::come) {
      arrived_.push_back({note, slot, {}});
    } else {
      LEND_TRYV(post_again(slot));
    }
  }
  // Last: what was written before a message that has come is there, too.
  LEND_TRYV(take_written());
  return success();
}

Result<bool> Link::take_written() noexcept {
  if (!has_written()) return false;
  freed_word_ = mailbox_->freed();
  LEND_TRYV(hear_freed(freed_word_));
  while (mailbox_->has_next()) {
    if (arrived_.size() == options_.receives())
      return Error{Errc::incompatible_peer, "a rank writes more messages than it may"};
    Arrived& next = arrived_.emplace_back();
    next.slot = Arrived::written;
    auto const is_whole = mailbox_->take(next.note, next.values);
    if (!is_whole.has_value() || !is_whole.value()) {
      arrived_.pop_back();
      return is_whole;
    }
    LEND_TRYV(hear_freed(next.note.freed));
  }
  return true;
}

Result<void> Link::hear_freed(std::uint32_t freed) noexcept {
  auto const more = freed - freed_by_peer_;
  // What was written and what was sent overtake each other.
  if (static_cast<std::int32_t>(more) < 0) return success();
  if (more > sent_ - freed_by_peer_)
    return Error{Errc::incompatible_peer, "a rank frees more messages than it was sent"};
  freed_by_peer_ = freed;
  return success();
}

std::span<std::byte const> Link::bytes_of(Arrived const& arrival) const noexcept {
  if (arrival.slot == Arrived::written) return std::span{arrival.values}.first(arrival.note.length);
  return {place_ + receive_at(arrival.slot) + sizeof(Note), arrival.note.length};
}

Result<void> Link::release(std::size_t index) noexcept {
  std::uint32_t const slot = arrived_[index].slot;
  arrived_.erase(arrived_.begin() + static_cast<std::ptrdiff_t>(index));
  if (slot == Arrived::written) {
    ++freed_;
    return tell_freed();
  }
  LEND_TRYV(post_released());
  released_ = slot;
  // The peer learns of each half a window without delay.
  if (freed_ + 1 - told_ >= options_.window / 2) return post_released();
  return success();
}

Result<void> Link::post_released() noexcept {
  if (!released_) return success();
  LEND_TRYV(post_again(*std::exchange(released_, std::nullopt)));
  ++freed_;
  return tell_freed();
}

Result<void> Link::post_again(std::uint32_t slot) noexcept {
  if (failure() != nullptr) return success();  // nothing more will come
  // SAFETY: the memory is the link's, which ends after the channel. These bytes are read once the
  // handle has the result.
  LEND_TRY(handle, unsafe_post_receive(*channel_,
                                       memory_.scatter(receive_at(slot), options_.slot_bytes())));
  receives_[slot].emplace(std::move(handle));
  posted_[(oldest_ + outstanding_) % posted_.size()] = slot;
  ++outstanding_;
  return success();
}

Result<void> Link::tell_freed() noexcept {
  // A part that goes the other way tells it, too. Without room for the note a later one does.
  if (freed_ - told_ < options_.window / 2 || peer_has_left_ || failure() != nullptr)
    return success();
  if (their_slots_ != 0) {
    std::uint64_t const freed = freed_;
    std::memcpy(place_ + written_at(), &freed, sizeof freed);
    LEND_TRYV(write(sizeof freed, 0));
    return success();
  }
  LEND_TRYV(post({.kind = Note::Kind::credit}, {}));
  return success();
}

Result<bool> Link::try_send(Note note, std::span<std::byte const> bytes) noexcept {
  if (sent_ - freed_by_peer_ >= options_.window) return false;
  auto posted = post(note, bytes);
  if (posted.has_value()) sent_ += posted.assume_value();
  return posted;
}

Result<bool> Link::free_send_slot() noexcept {
  auto& handle = sends_[next_send_];
  if (!handle) return true;
  LEND_TRY(done, handle->poll());
  if (!done) return false;
  handle.reset();
  return true;
}

/// Those whose number a window bounds.
bool Link::may_write(Note const& note) const noexcept {
  return their_slots_ != 0 && note.length <= WrittenNote::values_max &&
         (note.kind == Note::Kind::part || note.kind == Note::Kind::come);
}

Result<bool> Link::post(Note note, std::span<std::byte const> bytes) noexcept {
  note.freed = freed_;
  note.length = static_cast<std::uint32_t>(bytes.size());
  if (may_write(note)) return write(note, bytes);
  LEND_TRY(is_free, free_send_slot());
  if (!is_free) return false;
  std::byte* const room = place_ + send_at(next_send_);
  std::memcpy(room, &note, sizeof note);
  base::copy_bytes({room + sizeof note, bytes.size()}, bytes);
  // SAFETY: as in post_again().
  LEND_TRY(handle, unsafe_post_send(
                       *channel_, memory_.gather(send_at(next_send_), sizeof note + bytes.size())));
  sends_[next_send_].emplace(std::move(handle));
  next_send_ = (next_send_ + 1) % options_.receives();
  told_ = freed_;
  // While the message goes, what the next ones need.
  LEND_TRYV(post_released());
  LEND_TRYV(free_send_slot());
  return true;
}

Result<bool> Link::write(Note const& note, std::span<std::byte const> bytes) noexcept {
  auto const number = written_ + 1;
  auto const length = WrittenNote::encode(place_ + written_at(), number, note, bytes);
  auto posted = write(length, Mailbox::place_of(number, their_slots_));
  if (posted.has_value()) written_ += posted.assume_value();
  return posted;
}

bool Link::has_room_to_write() noexcept {
  auto& channel = channel::ChannelState::of(*channel_);
  auto const has_room = [&channel] {
    return channel.in_flight.outstanding(Operation::write) < LinkOptions::writes_max;
  };
  if (has_room()) return true;
  channel::ChannelState::Use const use{channel};
  static_cast<void>(channel.poll());
  return has_room();
}

Result<bool> Link::write(std::size_t length, std::size_t place) noexcept {
  if (!has_room_to_write()) return false;
  // SAFETY: the device copies bytes that go inline. The peer gave its mailbox to be written so.
  LEND_TRYV(unsafe_post_write(
      *channel_, {memory_.gather(written_at(), length), their_mailbox_.slice(place, length)}));
  told_ = freed_;
  return true;
}

bool Link::ask() noexcept {
  if (question_) return true;
  is_answered_ = false;
  if (is_over() || record_.size() < sizeof(Record)) return false;
  // SAFETY: as in post_again().
  auto posted = unsafe_post_read(
      *channel_, {memory_.scatter(answer_at(), sizeof(Record)), record_.slice(0, sizeof(Record))});
  if (!posted) return false;
  question_.emplace(std::move(posted).value());
  return true;
}

bool Link::has_answer() noexcept {
  if (!question_) return true;
  auto const done = question_->poll();
  if (done.has_value() && !done.value()) return false;
  is_answered_ = done.has_value() && !std::exchange(is_question_old_, false);
  question_.reset();
  return true;
}

std::optional<Record> Link::answer() const noexcept {
  if (question_ || !is_answered_) return {};
  auto const bytes = memory_.bytes(answer_at(), sizeof(Record));
  return bytes ? Record::from(bytes.value()) : std::nullopt;
}

Result<void> Link::read(std::uint32_t lane, std::size_t offset, ScatterElement target) noexcept {
  // SAFETY: as in post_again(); the target is the group's, which outlives its links, or on loan
  // until end_read().
  LEND_TRY(handle, unsafe_post_read(*channel_, {target, record_.slice(sizeof(Record) + offset,
                                                                      target.range.length)}));
  reading_[lane].emplace(std::move(handle));
  return success();
}

Result<bool> Link::has_read(std::uint32_t lane) noexcept {
  LEND_TRY(done, reading_[lane]->poll());
  if (!done) return false;
  reading_[lane].reset();
  return true;
}

std::optional<Error> Link::end_read(std::uint32_t lane) noexcept {
  if (!reading_[lane]) return {};
  if (auto const done = reading_[lane]->poll(); done.has_value() && done.value()) return {};
  auto& channel = channel::ChannelState::of(*channel_);
  channel::ChannelState::Use const use{channel};
  channel::Ending{channel}.end_connection(
      Error{Errc::channel_broken, "the group broke while it read from this rank"});
  if (Error const* const kept = channel.connection.kept()) return *kept;
  return {};
}

bool Link::try_end(Note const& note) noexcept {
  if (has_ended_ || is_over()) return true;
  auto const is_posted = post(note, {});
  has_ended_ = !is_posted.has_value() || is_posted.value();
  return has_ended_;
}

bool Link::is_quiet() noexcept {
  if (is_over()) return true;
  // The peer's receives are posted, so that its device takes all without the peer's program.
  return std::ranges::all_of(sends_, [](auto& handle) {
    if (!handle) return true;
    auto const done = handle->poll();
    return !done.has_value() || done.value().has_value();
  });
}

}  // namespace lend::group
