// SPDX-License-Identifier: MIT OR Apache-2.0
// What a link reads in its mailbox, and writes to the peer's. The thread of the group.
#include <group/link.hpp>
#include <lend/channel/unsafe.hpp>

#include <cstring>

namespace lend::group {

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

Result<bool> Link::take_written() noexcept {
  if (!has_written()) return false;
  auto const freed = mailbox_->take_freed();
  if (freed) {
    LEND_TRYV(hear_freed(*freed));
  }
  bool has_any = freed.has_value();
  while (mailbox_->has_next()) {
    if (arrived_.size() >= arrived_max())
      return Error{Errc::incompatible_peer, "a rank writes more messages than it may"};
    Arrived& next = arrived_.emplace_back();
    next.slot = Arrived::written;
    auto const is_whole = mailbox_->take(next.note, next.values);
    if (!is_whole.has_value() || !is_whole.assume_value()) arrived_.pop_back();
    LEND_TRYV(is_whole);
    if (!is_whole.assume_value()) break;
    LEND_TRYV(hear_freed(next.note.freed));
    has_any = true;
  }
  return has_any;
}

Result<void> Link::hear_freed(std::uint32_t freed) noexcept {
  if (window_.hear(freed)) return success();
  return Error{Errc::incompatible_peer, "a rank frees more messages than it was sent"};
}

/// Those whose number a window bounds.
bool Link::may_write(Note const& note) const noexcept {
  return their_slots_ != 0 && note.length <= WrittenNote::values_max &&
         (note.kind == Note::Kind::part || note.kind == Note::Kind::come);
}

Result<void> Link::tell_freed() noexcept {
  // A part that goes the other way tells it, too. Without room it goes once there is some.
  if (freed_ - told_ < options_.window / 2 || has_ended_ || is_over()) return success();
  if (their_slots_ == 0) {
    LEND_TRYV(without_value(post({.kind = Note::Kind::credit}, {})));
    return success();
  }
  auto const word = Mailbox::word_of(freed_);
  std::memcpy(place_ + written_at(), &word, sizeof word);
  LEND_TRYV(without_value(write_to_mailbox(sizeof word, 0)));
  return success();
}

Result<bool> Link::write_note(Note const& note, std::span<std::byte const> bytes) noexcept {
  auto const number = written_ + 1;
  auto const length = WrittenNote::encode(place_ + written_at(), number, note, bytes);
  auto written = write_to_mailbox(length, Mailbox::place_of(number, their_slots_));
  if (!written.has_value() || !written.assume_value()) return written;
  written_ = number;
  if (released_) {
    LEND_TRYV(post_released());
  }
  return true;
}

Result<bool> Link::write_to_mailbox(std::size_t length, std::size_t place) noexcept {
  if (!has_room()) return false;
  // SAFETY: the device copies bytes that go inline. The peer gave its mailbox to be written so.
  LEND_TRYV(unsafe_post_write(
      *channel_, {memory_.gather(written_at(), length), their_mailbox_.slice(place, length)}));
  told_ = freed_;
  return true;
}

}  // namespace lend::group
