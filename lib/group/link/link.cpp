// SPDX-License-Identifier: MIT OR Apache-2.0
// A receive is posted again after its message was released, which may be one message later; sends
// use their slots in turn. The thread of the group.
#include <channel/work/access.hpp>
#include <group/link/link.hpp>

#include <cstring>
#include <utility>

namespace lend::group {

namespace {

/// Whether a message may be posted, so that there stays room for reads.
bool has_room(Channel const& link, std::uint32_t most) noexcept {
  channel::ChannelAccess const channel{link};
  if (channel.sends_outstanding() < most) return true;
  channel.poll();
  return channel.sends_outstanding() < most;
}

/// The peer says that it has freed so many of this rank's messages.
Result<void> update(SendWindow& window, std::uint32_t freed) noexcept {
  if (window.update(freed)) return success();
  return Error{Errc::incompatible_peer, "a rank frees more messages than it was sent"};
}

}  // namespace

Result<std::unique_ptr<Link>> Link::prepare(ProtectionDomain const& domain,
                                            PreparedChannel prepared,
                                            std::optional<Mailbox> mailbox,
                                            LinkOptions const& options) {
  LEND_TRY(memory, LinkMemory::allocate(domain, options));
  auto link =
      std::make_unique<Link>(std::move(prepared), std::move(memory), std::move(mailbox), options);
  LEND_TRYV(link->receives_.post_all(*link->prepared_));
  return link;
}

Link::Link(PreparedChannel prepared, LinkMemory memory, std::optional<Mailbox> mailbox,
           LinkOptions const& options)
    : options_{options},
      memory_{std::move(memory)},
      mailbox_{std::move(mailbox)},
      window_{options.window},
      prepared_{std::move(prepared)},
      receives_{memory_, options.receives()},
      sends_{memory_, options.receives()} {
  arrived_.reserve(arrived_max() + options.receives());  // also where a peer writes all it may
}

Result<void> Link::connect(RankCard const& peer) {
  return begin(std::move(*prepared_).handshake(peer.endpoint), peer);
}

Result<void> Link::adopt(QueuePair connected, RankCard const& peer) {
  return begin(std::move(*prepared_).adopt(std::move(connected)), peer);
}

Result<void> Link::begin(Result<Channel> connected, RankCard const& peer) noexcept {
  LEND_TRY(channel, std::move(connected));
  prepared_.reset();
  channel_.emplace(std::move(channel));
  status_.emplace(*channel_, memory_, peer.record);
  // What goes inline is copied by the post, so that nothing need be known of its end.
  if (channel_->inline_bytes() >= WrittenMessage::bytes)
    theirs_ =
        PeerMailbox{peer.mailbox, options_.window, channel::ChannelAccess{*channel_}.queue_pair()};
  return success();
}

Result<void> Link::take_arrivals() noexcept {
  if (!channel_) return success();  // the peer may have greeted, but this rank gave up before
  auto const received = take_received();
  // Last, and in any case: what was written before a message came, or before the link broke.
  LEND_TRYV(without_value(take_written()));
  LEND_TRYV(received);
  // There may be room now.
  return report_freed();
}

Result<void> Link::take_received() noexcept {
  // No more than can have come by now: a peer that sends on and on does not keep this rank here.
  for (std::size_t taken = 0, most = receives_.outstanding(); taken < most; ++taken) {
    std::uint32_t slot = 0;
    std::size_t bytes = 0;
    // The poll for the first one has asked the queue, or had no need to.
    LEND_TRY(has_come, receives_.take(taken == 0, slot, bytes));
    if (!has_come) break;
    MessageHead head;
    std::memcpy(&head, memory_.received(slot), sizeof head);
    if (bytes < sizeof head || bytes != sizeof head + head.length)
      return Error{Errc::incompatible_peer, "a message between ranks is damaged"};
    LEND_TRYV(update(window_, head.freed));
    peer_has_left_ |= head.kind == MessageHead::Kind::left;
    if (head.kind == MessageHead::Kind::broken) fault_ = head.fault();
    if (head.kind == MessageHead::Kind::part || head.kind == MessageHead::Kind::come) {
      arrived_.push_back({head, slot, {}});
    } else {
      LEND_TRYV(receives_.post_again(*channel_, slot));
    }
  }
  return success();
}

Result<bool> Link::take_written() noexcept {
  if (!has_written()) return false;
  auto const freed = mailbox_->take_freed();
  if (freed) {
    LEND_TRYV(update(window_, *freed));
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
    LEND_TRYV(update(window_, next.head.freed));
    has_any = true;
  }
  return has_any;
}

std::span<std::byte const> Link::bytes_of(Arrived const& arrival) const noexcept {
  if (arrival.slot == Arrived::written) return std::span{arrival.values}.first(arrival.head.length);
  return {memory_.received(arrival.slot) + sizeof(MessageHead), arrival.head.length};
}

Result<void> Link::release(std::size_t index) noexcept {
  std::uint32_t const slot = arrived_[index].slot;
  arrived_.erase(arrived_.begin() + static_cast<std::ptrdiff_t>(index));
  if (slot == Arrived::written) {
    ++freed_;
    return report_freed();
  }
  LEND_TRYV(post_released());
  released_ = slot;
  // The peer learns of each half a window without delay.
  if (freed_ + 1 - reported_ >= options_.window / 2) return post_released();
  return success();
}

Result<void> Link::post_released() noexcept {
  if (!released_) return success();
  LEND_TRYV(receives_.post_again(*channel_, *std::exchange(released_, std::nullopt)));
  ++freed_;
  return report_freed();
}

Result<bool> Link::try_send(MessageHead head, std::span<std::byte const> bytes) noexcept {
  if (window_.is_full()) return false;
  auto posted = post(head, bytes);
  if (posted.has_value()) window_.note_sent(posted.assume_value() ? 1 : 0);
  return posted;
}

Result<bool> Link::post(MessageHead head, std::span<std::byte const> bytes) noexcept {
  head.freed = freed_;
  head.length = static_cast<std::uint32_t>(bytes.size());
  if (theirs_.takes(head)) return write(head, bytes.data());
  if (!has_room(*channel_, options_.sends_and_writes())) return false;
  LEND_TRY(is_free, sends_.free_next());
  if (!is_free) return false;
  LEND_TRYV(sends_.send(*channel_, head, bytes));
  reported_ = freed_;
  // While the message goes, what the next ones need.
  LEND_TRYV(post_released());
  LEND_TRYV(without_value(sends_.free_next()));
  return true;
}

Result<bool> Link::write(MessageHead const& head, std::byte const* values) noexcept {
  if (theirs_.is_stored_to()) {
    theirs_.store(head, values);
  } else {
    if (!has_room(*channel_, options_.sends_and_writes())) return false;
    LEND_TRYV(theirs_.write(*channel_, memory_, head, values));
  }
  reported_ = freed_;
  if (released_) {
    LEND_TRYV(post_released());
  }
  return true;
}

bool Link::gains_room() noexcept {
  auto const freed = mailbox_->take_freed();
  return freed && window_.update(*freed) && !window_.is_full();
}

Result<void> Link::tell_freed() noexcept {
  if (!theirs_.exists()) return send_credit();
  if (theirs_.is_stored_to()) {
    store_freed();
  } else {
    if (!has_room(*channel_, options_.sends_and_writes())) return success();  // once there is some
    LEND_TRYV(theirs_.write_freed(*channel_, memory_, freed_));
    reported_ = freed_;
  }
  return success();
}

void Link::store_freed() noexcept {
  theirs_.store_freed(freed_);
  reported_ = freed_;
}

bool Link::try_end(MessageHead const& head) noexcept {
  if (has_ended_ || is_over()) return true;
  auto const is_posted = post(head, {});
  has_ended_ = !is_posted.has_value() || is_posted.value();
  return has_ended_;
}

bool Link::is_quiet() noexcept {
  return is_over() || sends_.is_quiet();
}

}  // namespace lend::group
