// SPDX-License-Identifier: MIT OR Apache-2.0
// What a link reads in its mailbox, and writes to the peer's. The thread of the group.
#include <channel/work/access.hpp>
#include <group/link/link.hpp>
#include <lend/channel/unsafe.hpp>

#include <atomic>
#include <cstring>

namespace lend::group {

namespace {

/// Those of a rank begin at a cache line; others no thread touches.
verbs::PeerBytes aligned_bytes(verbs::QueuePairHandle const& queue_pair,
                               RemoteRegion const& region) noexcept {
  auto bytes = verbs::peer_bytes(queue_pair, region);
  if (reinterpret_cast<std::uintptr_t>(bytes.address) % WrittenMessage::bytes != 0) return {};
  return bytes;
}

}  // namespace

Result<RemoteRegion> Link::mailbox() const noexcept {
  if (!mailbox_) return RemoteRegion{};
  return mailbox_->remote();
}

void Link::note_memory_of(RankCard const& peer) noexcept {
  auto const& queue_pair = channel::ChannelAccess{*channel_}.queue_pair();
  peer_status_ = peer.record;
  mapped_status_ = aligned_bytes(queue_pair, peer_status_);
  // What goes inline is copied by the post, so that nothing need be known of its end.
  if (channel_->inline_bytes() < WrittenMessage::bytes) return;
  theirs_ = PeerMailbox{peer.mailbox, options_.window, queue_pair};
}

PeerMailbox::PeerMailbox(RemoteRegion const& region, std::uint32_t window,
                         verbs::QueuePairHandle const& queue_pair) noexcept
    : region_{region} {
  auto const slots = Mailbox::slots_in(region.size());
  if (slots < window) return;
  slots_ = slots;
  mapped_ = aligned_bytes(queue_pair, region);
}

std::byte const* Link::shown(std::size_t offset, std::size_t length) const noexcept {
  if (mapped_status_.address == nullptr ||
      mapped_status_.are_faults_planned->load(std::memory_order_relaxed) ||
      !peer_status_.slice(sizeof(RankStatus) + offset, length).in_bounds())
    return nullptr;
  return mapped_status_.address + sizeof(RankStatus) + offset;
}

Result<bool> Link::take_written() noexcept {
  if (!has_written()) return false;
  auto const freed = mailbox_->take_freed();
  if (freed) {
    LEND_TRYV(update_window(*freed));
  }
  bool has_any = freed.has_value();
  while (mailbox_->has_next()) {
    if (arrived_.size() >= arrived_max())
      return Error{Errc::incompatible_peer, "a rank writes more messages than it may"};
    Arrived& next = arrived_.emplace_back();
    next.slot = Arrived::written;
    auto const is_whole = mailbox_->take(next.head, next.values);
    if (!is_whole.has_value() || !is_whole.assume_value()) arrived_.pop_back();
    LEND_TRYV(is_whole);
    if (!is_whole.assume_value()) break;
    LEND_TRYV(update_window(next.head.freed));
    has_any = true;
  }
  return has_any;
}

bool Link::gains_room() noexcept {
  auto const freed = mailbox_->take_freed();
  return freed && window_.update(*freed) && !window_.is_full();
}

Result<void> Link::update_window(std::uint32_t freed) noexcept {
  if (window_.update(freed)) return success();
  return Error{Errc::incompatible_peer, "a rank frees more messages than it was sent"};
}

/// Those whose number a window bounds.
bool Link::may_write(MessageHead const& head) const noexcept {
  return theirs_.exists() && head.length <= WrittenMessage::values_max &&
         (head.kind == MessageHead::Kind::part || head.kind == MessageHead::Kind::come);
}

Result<void> Link::report_freed() noexcept {
  // A part that goes the other way tells it, too. Without room it goes once there is some.
  if (freed_ - reported_ < options_.window / 2 || has_ended_ || is_over()) return success();
  if (!theirs_.exists()) {
    LEND_TRYV(without_value(post({.kind = MessageHead::Kind::credit}, {})));
    return success();
  }
  if (theirs_.is_stored_to()) {
    store_freed();
    return success();
  }
  std::atomic_thread_fence(std::memory_order_release);  // what was freed was read
  auto const word = Mailbox::word_of(freed_);
  std::memcpy(place_ + written_at(), &word, sizeof word);
  LEND_TRYV(without_value(write_to_mailbox(sizeof word, 0)));
  return success();
}

void Link::store_freed() noexcept {
  theirs_.store_freed(freed_);
  reported_ = freed_;
}

Result<bool> Link::write_message(MessageHead const& head,
                                 std::span<std::byte const> bytes) noexcept {
  if (theirs_.is_stored_to()) {
    theirs_.store(head, bytes.data());
    reported_ = freed_;
  } else {
    // Before the message is seen all is seen that this rank has stored for its reader.
    std::atomic_thread_fence(std::memory_order_release);
    auto const length =
        WrittenMessage::encode(place_ + written_at(), theirs_.next_number(), head, bytes.data());
    auto written = write_to_mailbox(length, theirs_.next_place());
    if (!written.has_value() || !written.assume_value()) return written;
    theirs_.note_written();
  }
  if (released_) {
    LEND_TRYV(post_released());
  }
  return true;
}

Result<bool> Link::write_to_mailbox(std::size_t length, std::size_t place) noexcept {
  if (!has_room()) return false;
  // SAFETY: the device copies bytes that go inline. The peer gave its mailbox to be written so.
  LEND_TRYV(unsafe_post_write(
      *channel_, {memory_.gather(written_at(), length), theirs_.slice(place, length)}));
  reported_ = freed_;
  return true;
}

}  // namespace lend::group
